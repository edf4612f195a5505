"""Several streams that are aggregated into one table: each row knows its group, and so the function that it is for.

The groups meet at one node, which does the work of all of them: rows of several topics are put in order there, and go
as one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from semel.serdes.serde import Serde, decode, encode
from semel.streams.dropped import DroppedRecords
from semel.streams.nodes.function_fold import Python
from semel.streams.nodes.stateless import check_columns, without_nulls
from semel.streams.nodes.stream_time import GROUP
from semel.streams.nodes.tables.old_values import with_value
from semel.streams.rows import CARRIED, Record, records
from semel.streams.state.state_store import StateStore
from semel.streams.topology.node import Operator

__all__ = ["CogroupFold", "in_group"]


def in_group(number: int, value: Serde, name: str, dropped: DroppedRecords, *, needs_value: bool) -> Operator:
    """Return an operator that brings the rows of one group into the form of all: bytes, and the group's number."""

    def operate(rows: Any, _: Mapping[str, StateStore]) -> Any:
        check_columns(rows, ("key", "value"), name)
        rows = without_nulls(rows, ("key", "value") if needs_value else ("key",), name, dropped)
        rows = rows.select([one for one in ("key", "value", "timestamp", *CARRIED) if one in rows.schema.names])
        if value is not None:  # without a serialisation values stay what they are, such as counts
            rows = with_value(rows, encode(rows["value"], value))
        return rows.append_column(GROUP, pa.array(np.full(rows.num_rows, number, np.int32)))

    return operate


class CogroupFold(Python):
    """The functions of all groups, each with the serialisation of its values."""

    def __init__(
        self,
        name: str,
        functions: Sequence[tuple[Callable[..., Any], Serde]],
        initial: Callable[[], Any],
        serdes: tuple[Serde, Serde],
        merger: Callable[[Any, Any, Any], Any] | None = None,
    ) -> None:
        key, made = serdes
        super().__init__(name, functions[0][0], initial, (key, None), made, merger)
        self._functions, self._key = functions, key

    def _calls(self, rows: Any) -> Iterable[tuple[Record, Callable[..., Any]]]:
        """Return the records in their order, and the function for each."""
        group = rows[GROUP].to_numpy()
        found: dict[int, tuple[Record, Callable[..., Any]]] = {}
        for number, (function, value) in enumerate(self._functions):
            at = np.flatnonzero(group == number)
            mine = rows.take(pa.array(at))
            if value is not None:
                mine = with_value(mine, decode(mine["value"], value))
            for row, record in zip(at.tolist(), records(mine, self._key, value), strict=True):
                found[row] = record, function
        return (found[row] for row in range(rows.num_rows))
