"""Rows of several inputs of a task, by time: cut into pieces of one topic, as few as give the same result.

Where the inputs meet by the record's key alone, rows of other keys may change places. Then a block ends only before a
row whose key another topic has in it, and the rows of each topic in a block are one piece. Where all that is handed on
is put in order again, rows of other keys change places freely: these are rounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["pieces", "rounds", "runs"]


def pieces(rows: Any, *, by_key: bool) -> list[Any]:
    """Return the pieces in their order."""
    topics = rows["topic"].dictionary_encode()
    if len(topics.dictionary) < 2:
        return [rows]
    topic = topics.indices.to_numpy(zero_copy_only=False)
    if not by_key:
        return [rows.slice(first, last - first) for first, last in runs(topic)]
    keys = rows["key"].dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    starts = _starts(_met_before(keys, topic))
    return [
        block.filter(pc.equal(block["topic"], name))
        for block in (rows.slice(first, last - first) for first, last in pairwise([*starts, len(topic)]))
        for name in pc.unique(block["topic"])
    ]


def rounds(rows: Any) -> list[Any]:
    """Return pieces of one topic in which rows of other keys have changed places: as many as the topics of one key
    change.
    """
    topics = rows["topic"].dictionary_encode()
    if len(topics.dictionary) < 2:
        return [rows]
    topic = topics.indices.to_numpy(zero_copy_only=False)
    keys = rows["key"].dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    order = np.argsort(keys, kind="stable")
    key, of = keys[order], topic[order]
    begins = np.append(True, key[1:] != key[:-1])
    changes = np.cumsum(~begins & np.append(False, of[1:] != of[:-1]))
    first = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
    turn = np.empty(len(order), np.int64)
    turn[order] = changes - changes[first]
    place = turn * len(topics.dictionary) + topic
    by_place = np.argsort(place, kind="stable")
    return [rows.take(pa.array(by_place[start:end])) for start, end in runs(place[by_place])]


def runs(values: Any) -> Iterable[tuple[int, int]]:
    """Return where equal values follow each other: the first place, and the one after the last."""
    return pairwise([0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist(), len(values)])


def _met_before(keys: Any, topic: Any) -> Any:
    """Return for each row the last row before it with its key and another topic, or -1."""
    order = np.argsort(keys, kind="stable")
    key, of = keys[order], topic[order]
    other_key = np.append(True, key[1:] != key[:-1])
    begins = other_key | np.append(True, of[1:] != of[:-1])
    begin = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
    met = np.empty(len(order), np.int64)
    met[order] = np.where(other_key[begin], -1, order[begin - 1])
    return met


def _starts(met: Any) -> list[int]:
    """Return where blocks begin: a row that meets one of its block begins the next block."""
    starts = [0]
    at = np.flatnonzero(met >= 0)
    for row, before in zip(at.tolist(), met[at].tolist(), strict=True):
        if before >= starts[-1]:
            starts.append(row)
    return starts
