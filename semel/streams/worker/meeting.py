"""Rows of several inputs at the node where they meet: in the order of the records that they were made of.

Each input's rows go as one piece through the nodes before. Their origin says of which record they were made, and so
which place they have among all rows of the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.streams.worker.blocks import runs

__all__ = ["in_order"]

#: By topic: places among the task's rows, and the offsets there.
_Places = Mapping[str, tuple[Any, Any]]


def in_order(rows: Any, batches: Sequence[Any]) -> list[Any]:
    """Return the rows of ``batches``, which were made of ``rows``: one batch, or several where columns differ."""
    batches = [one for one in batches if one.num_rows]
    if len(batches) < 2:
        return batches
    places = _places(rows)
    place = np.concatenate([_place(places, one) for one in batches])
    order = np.argsort(place, kind="stable")
    names = batches[0].schema.names
    if all(set(one.schema.names) == set(names) for one in batches):
        alike = [one.select(names) for one in batches]
        if all(one.schema.equals(alike[0].schema) for one in alike):
            return [pa.concat_batches(alike).take(pa.array(order))]
    return _runs(batches, order)


def _places(rows: Any) -> _Places:
    offsets = rows["offset"].to_numpy(zero_copy_only=False)
    found = {}
    for topic in pc.unique(rows["topic"]).to_pylist():
        at = np.flatnonzero(pc.equal(rows["topic"], topic).to_numpy(zero_copy_only=False))
        found[topic] = at, offsets[at]
    return found


def _place(places: _Places, batch: Any) -> Any:
    """Return the place of the record of each row. All are of one topic."""
    at, offsets = places[batch["topic"][0].as_py()]
    return at[np.searchsorted(offsets, batch["offset"].to_numpy(zero_copy_only=False))]


def _runs(batches: Sequence[Any], order: Any) -> list[Any]:
    """Return rows in this order, cut where they change from one batch to another."""
    counts = [one.num_rows for one in batches]
    of_batch = np.repeat(np.arange(len(batches)), counts)[order]
    row = order - np.repeat(np.cumsum([0, *counts[:-1]]), counts)[order]
    return [batches[of_batch[first]].take(pa.array(row[first:last])) for first, last in runs(of_batch)]
