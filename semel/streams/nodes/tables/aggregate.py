"""Aggregations of a table: an update takes its old value out of a group, and puts its new one in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from semel.serdes.serde import Serde, encode
from semel.streams.nodes.folds import Count, Entries
from semel.streams.nodes.function_fold import Python
from semel.streams.nodes.tables.old_values import OLD, OldValues, with_value, without_old
from semel.streams.rows import Record, calling, joined_batches, one_by_one, records, timestamps
from semel.streams.state.state_store import StateStore, StoreSpec, number

__all__ = ["ByFunctions", "Counted", "TableAggregate", "TableFold"]


class TableFold(Protocol):
    """The work of one aggregation. An aggregate is None where nothing is there."""

    #: What its entries are, in words.
    holds: str
    #: The serdes of keys and values that its functions are given.
    given: tuple[Serde, Serde]

    def add(self, record: Record, state: Any) -> Any:
        """Return the aggregate with the record's value."""

    def remove(self, record: Record, state: Any) -> Any:
        """Return the aggregate without the record's value."""

    def columns(self, entries: Entries) -> dict[str, Any]:
        """Return the entries as columns."""

    def states(self, entries: Entries) -> list[Any]:
        """Return the aggregates of entries."""

    def entries(self, states: list[Any], times: list[int]) -> Entries:
        """Return the entries of aggregates."""


class Counted(Count):
    """The number of keys in a group."""

    given: tuple[Serde, Serde] = (None, None)

    def add(self, _: Any, state: Any) -> Any:
        """Add one."""
        return (state or 0) + 1

    def remove(self, _: Record, state: int) -> int:
        """Take one off."""
        return state - 1


class ByFunctions:
    """Functions that add a value to an aggregate, and take one out. Without ``initial`` the first value is it."""

    def __init__(
        self,
        name: str,
        functions: tuple[Callable[..., Any], Callable[..., Any]],
        initial: Callable[[], Any] | None,
        given: tuple[Serde, Serde],
        made: Serde,
    ) -> None:
        self._name, self._functions, self._initial = name, functions, initial
        self.given = given
        form = Python(name, functions[0], initial, given, made)
        self.holds = form.holds
        self.columns, self.states, self.entries = form.columns, form.states, form.entries

    def add(self, record: Record, state: Any) -> Any:
        """Call the first function."""
        if state is None:
            if self._initial is None:
                return record.value
            state = calling(self._initial, self._name, record)
        return self._called(self._functions[0], record, state)

    def remove(self, record: Record, state: Any) -> Any:
        """Call the second function."""
        return self._called(self._functions[1], record, state)

    def _called(self, function: Callable[..., Any], record: Record, state: Any) -> Any:
        if self._initial is None:
            return calling(function, self._name, record, state, record.value)
        return calling(function, self._name, record, record.key, record.value, state)


@dataclass(frozen=True)
class TableAggregate:
    """Keeps the aggregate of each group. Rows have new and old values."""

    name: str
    spec: StoreSpec
    fold: TableFold
    key: Serde
    caching: bool
    old: OldValues

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """Return the last update of each group, and each update without caching."""
        store = stores[self.spec.name]
        if self.caching or rows.num_rows < 2:
            return self._updates(rows, store)
        return joined_batches([self._updates(row, store) for row in one_by_one(rows)])

    def _updates(self, rows: Any, store: StateStore) -> Any:
        keys = encode(rows["key"], self.key).dictionary_encode()
        names = keys.dictionary.to_pylist()
        before = store.get(names) if names else []
        states = self.fold.states(before)
        latest = [-1 if entry is None else number(entry) for entry in before]
        new = records(without_old(rows), *self.fold.given)
        old = records(with_value(rows, rows[OLD]), *self.fold.given)
        for group, added, removed in zip(keys.indices.to_pylist(), new, old, strict=True):
            states[group], latest[group] = self._step(states[group], latest[group], added, removed)
        if latest:
            store.saw(max(latest))
        entries = self.fold.entries(states, latest)
        there = [(name, entry) for name, entry in zip(names, entries, strict=True) if entry is not None]
        store.put([name for name, _ in there], [entry for _, entry in there])
        for name, entry, at in zip(names, entries, latest, strict=True):
            if entry is None:
                store.delete(name, at)
        return self._handed_on(rows, keys, entries, latest, before)

    def _step(self, state: Any, latest: int, added: Record, removed: Record) -> tuple[Any, int]:
        """Return the aggregate and its time after one update: without the old value first, then with the new one."""
        was, time = state, added.timestamp
        if removed.value is not None and state is not None:
            state, time = self.fold.remove(removed, state), max(time, latest)
        if added.value is not None:
            time = time if was is None else max(time, latest)
            state = self.fold.add(added, state)
        return state, time

    def _handed_on(self, rows: Any, keys: Any, entries: Entries, latest: list[int], before: Entries) -> Any:
        of_group = keys.indices.to_pylist()
        first = {group: at for at, group in reversed(list(enumerate(of_group)))}
        columns = {
            "key": rows["key"].take(pa.array([first[group] for group in range(len(entries))], pa.int64())),
            **self.fold.columns(entries),
            "timestamp": timestamps(latest),
        }
        if "headers" in rows.schema.names:
            last = {group: at for at, group in enumerate(of_group)}
            columns["headers"] = rows["headers"].take(pa.array([last[at] for at in range(len(entries))], pa.int64()))
        if self.old.sent:
            columns[OLD] = self.fold.columns(before)["value"]
        made = pa.RecordBatch.from_pydict(columns)
        if not self.caching:
            return made
        # what came and went within the batch is not handed on, as with Kafka Streams' cache
        both = zip(before, entries, strict=True)
        return made.filter(pa.array([one is not None or other is not None for one, other in both], pa.bool_()))
