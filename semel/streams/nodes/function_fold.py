"""The state of an aggregation by a function of single records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from semel.serdes.serde import Serde, decode, encode, to_python
from semel.streams.cells import items
from semel.streams.nodes.folds import Entries, FoldSteps, Groups
from semel.streams.rows import Record, calling, place, records, returned
from semel.streams.state.state_store import number

__all__ = ["Python"]

_WORD = 8


class Python:
    """A function of the key, the record's value, and what was there; ``initial`` makes the first one, or the first
    value is it.
    """

    needs: tuple[str, ...] = ("value",)

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        initial: Callable[[], Any] | None,
        given: tuple[Serde, Serde],
        made: Serde,
        merger: Callable[[Any, Any, Any], Any] | None = None,
    ) -> None:
        self._merger = merger
        self._name, self._function, self._initial, self._given, self._made = name, function, initial, given, made
        self.holds = f"what a function made ({made or 'bytes'})"

    def add(self, groups: Groups, before: Entries) -> tuple[Sequence[bytes | None], np.ndarray[Any, Any]]:
        """Call the function for each record, in their order. After a deletion the next record begins again."""
        states = to_python(self.columns(before)["value"], self._made)
        times = [-1 if entry is None else number(entry) for entry in before]
        for (record, function), group in zip(self._calls(groups.rows), groups.of_row.tolist(), strict=True):
            there = states[group] is not None
            times[group] = max(times[group], record.timestamp) if there else record.timestamp
            states[group] = self._next(record, function, states[group])
        latest = np.array(times, np.int64)
        made = returned(states, self._made, self._name, lambda at: place(groups.rows, groups.last_row(at)))
        values = encode(made, self._made).to_pylist()
        stamps = items(latest.astype(">i8"))
        return [None if value is None else stamps[at] + value for at, value in enumerate(values)], latest

    def _calls(self, rows: Any) -> Iterable[tuple[Record, Callable[..., Any]]]:
        """Return the records, and the function for each."""
        return ((record, self._function) for record in records(rows, *self._given))

    def _next(self, record: Record, function: Callable[..., Any], state: Any) -> Any:
        if state is None:
            if self._initial is None:
                return record.value
            state = calling(self._initial, self._name, record)
        if self._initial is None:
            return calling(function, self._name, record, state, record.value)
        return calling(function, self._name, record, record.key, record.value, state)

    def columns(self, entries: Entries) -> dict[str, Any]:
        """Return the column ``value``."""
        raw = pa.array([None if entry is None else entry[_WORD:] for entry in entries], pa.binary())
        return {"value": decode(raw, self._made)}

    def steps(self, rows: Any) -> FoldSteps:
        """Call the function for single rows."""
        return _PythonSteps(self._name, self._initial, self._merger, list(self._calls(rows)))

    def states(self, entries: Entries) -> list[Any]:
        """Return the Python values of entries."""
        return to_python(self.columns(entries)["value"], self._made)

    def entries(self, states: list[Any], times: list[int]) -> Entries:
        """Return the entries of Python values."""
        made = encode(returned(states, self._made, self._name, lambda _: "of a window"), self._made).to_pylist()
        stamps = items(np.array(times, ">i8"))
        return [None if value is None else stamps[at] + value for at, value in enumerate(made)]


class _PythonSteps:
    """A function's work on single rows. Where nothing is there, it gets None, as in Kafka Streams."""

    at = 0

    def __init__(self, name: str, initial: Any, merger: Any, calls: list[tuple[Record, Callable[..., Any]]]) -> None:
        self._name, self._initial, self._merger, self._calls = name, initial, merger, calls

    def initial(self) -> Any:
        return None if self._initial is None else self._calling(self._initial)

    def add(self, state: Any) -> Any:
        record, function = self._calls[self.at]
        if self._initial is not None:
            return self._calling(function, record.key, record.value, state)
        return record.value if state is None else self._calling(function, state, record.value)

    def merge(self, one: Any, other: Any) -> Any:
        if self._initial is not None:
            return self._calling(self._merger, self._calls[self.at][0].key, one, other)
        return other if one is None else self._calling(self._calls[self.at][1], one, other)

    def _calling(self, function: Any, *arguments: Any) -> Any:
        return calling(function, self._name, self._calls[self.at][0], *arguments)
