"""Nodes with state: aggregations, tables, and joins of a stream with a table.

An aggregation hands on one row for each key (and window) that a batch has changed, as Kafka Streams does with its
cache: the last one. Without caching it hands on one for each update. Rows that come after their window was closed are
dropped and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.serdes.serde import Serde, decode, encode, to_python
from semel.streams.dropped import DroppedRecords
from semel.streams.nodes.folds import Entries, Fold, Groups
from semel.streams.nodes.stateless import check_columns, without_nulls
from semel.streams.nodes.stream_time import GroupTimes, stream_times
from semel.streams.nodes.tables.old_values import OLD, OldValues, previous_values
from semel.streams.nodes.tables.view import View
from semel.streams.nodes.versioned import VersionedView
from semel.streams.rows import (
    Record,
    calling,
    joined_batches,
    misfit,
    one_by_one,
    place,
    records,
    returned,
    times,
    timestamps,
)
from semel.streams.state.state_store import StateStore, StoreSpec, number, stamps
from semel.streams.windows import Windows

__all__ = ["Aggregate", "Join", "TableSource", "value_reader"]

_WORD = 8


@dataclass(frozen=True)
class Aggregate:
    """Groups rows by key and window, and folds them into a store."""

    name: str
    spec: StoreSpec
    fold: Fold
    key: Serde
    windows: Windows | None
    dropped: DroppedRecords
    caching: bool
    old: OldValues
    #: Whether windows are handed on once, when they have closed.
    on_close: bool = False
    #: The stream times of groups of rows. None: there is one, the store's.
    group_times: GroupTimes | None = None

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """One row for each group: key, window, what the fold says, timestamp. One for each update without caching."""
        rows = self._wanted(rows)
        if self.on_close:
            store = stores[self.spec.name]
            before = store.stream_time
            self._updates(rows, stores)
            return self._closed(rows, store, before)
        if self.caching or rows.num_rows < 2:
            return self._updates(rows, stores)
        return joined_batches([self._updates(row, stores) for row in one_by_one(rows)])

    def _closed(self, rows: Any, store: StateStore, before: int) -> Any:
        """Return the windows that these rows have closed since this stream time, in the order of their start. Each has
        the headers of the row that has closed it.
        """
        assert isinstance(self.windows, Windows)
        size, names = self.windows.longest_ms, self.windows.keys
        open_from = (max(time - self.windows.grace_ms - size + 1, 0) for time in (before, store.stream_time))
        found = list(store.scan(*map(names.first, open_from)))
        starts = np.array([names.start(name) for name, _ in found], np.int64)
        headers = {}
        if _has_headers(rows):
            closing = np.searchsorted(np.maximum.accumulate(times(rows)), starts + size + self.windows.grace_ms)
            headers["headers"] = rows["headers"].take(pa.array(closing))
        return pa.RecordBatch.from_pydict(
            {
                **headers,
                "key": decode(pa.array([names.key(name) for name, _ in found], pa.binary()), self.key),
                "window_start": timestamps(starts),
                "window_end": timestamps(starts + size),
                **self.fold.columns([entry for _, entry in found]),
                "timestamp": timestamps([number(entry) for _, entry in found]),
            }
        )

    def _updates(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        time, store = times(rows), stores[self.spec.name]
        keys = encode(rows["key"], self.key)
        starts = ends = np.zeros(len(time), np.int64)
        if self.windows is not None:
            times_of = self.group_times
            now = stream_times(time, store.stream_time) if times_of is None else times_of.at(rows, time, stores)
            kept, starts, ends = self._open_windows(self.windows, time, now)
            rows, keys, time = rows.take(pa.array(kept)), keys.take(pa.array(kept)), time[kept]
        if len(time):
            store.saw(int(time.max()))
        table = pa.table({"key": keys, "start": starts, "row": np.arange(len(time)), "time": time})
        groups = table.group_by(["key", "start"], use_threads=False).aggregate([("row", "list"), ("time", "max")])
        of_row = np.empty(len(time), np.int64)
        members = groups["row_list"].combine_chunks()
        flat = members.flatten().to_numpy()
        of_row[flat] = members.value_parent_indices().to_numpy()
        found = Groups(rows, of_row, groups.num_rows, groups["time_max"].to_numpy())
        offsets = members.offsets.to_numpy()
        ends = ends[flat[offsets[:-1]]]  # those of each group's first row
        headers = {"headers": rows["headers"].take(pa.array(flat[offsets[1:] - 1]))} if _has_headers(rows) else {}
        return self._fold(found, groups["key"].combine_chunks(), groups["start"].to_numpy(), ends, store, headers)

    def _fold(self, groups: Groups, keys: Any, starts: Any, ends: Any, store: StateStore, headers: Any) -> Any:
        names: list[bytes] = keys.to_pylist()
        if self.windows is not None:
            names = self.windows.keys.in_store(names, starts, ends)
        before = store.get(names)
        entries, latest = self.fold.add(groups, before)
        store.put(*_there(names, entries))
        for name, entry, at in zip(names, entries, latest.tolist(), strict=True) if None in entries else ():
            if entry is None:
                store.delete(name, at)
        columns = {"key": decode(keys, self.key), **headers}
        if self.windows is not None:
            columns |= {"window_start": timestamps(starts), "window_end": timestamps(ends)}
        columns |= self.fold.columns(list(entries))
        if self.old.sent:
            columns[OLD] = self.fold.columns(before if self.caching else self._begun(before, groups.rows))["value"]
        made = pa.RecordBatch.from_pydict({**columns, "timestamp": timestamps(latest)})
        if None not in entries or not self.caching:
            return made
        # a deletion is handed on; what came and went within the batch is not, as with Kafka Streams' cache
        both = zip(before, entries, strict=True)
        return made.filter(pa.array([one is not None or other is not None for one, other in both], pa.bool_()))

    def _begun(self, before: Entries, rows: Any) -> Entries:
        """Return entries, and the initial one where there is none: so Kafka Streams has them without its cache."""
        if None not in before:
            return before
        return [self.fold.entries([self.fold.steps(rows).initial()], [0])[0] if one is None else one for one in before]

    def _wanted(self, rows: Any) -> Any:
        check_columns(rows, ("key", *self.fold.needs), self.name)
        # Kafka Streams' windows take values of null, and its other aggregations do not
        needed = ("key", "value") if self.windows is None else ("key",)
        return without_nulls(rows, needed, self.name, self.dropped)

    def _open_windows(self, windows: Windows, time: Any, now: Any) -> tuple[Any, Any, Any]:
        kept, starts, ends = windows.assign(time)
        in_time = windows.takes(ends, now[kept])
        self.dropped.count(self.name, len(time) - len(np.unique(kept[in_time])), "late rows")
        return kept[in_time], starts[in_time], ends[in_time]


def value_reader(value: Serde) -> Callable[[Entries], dict[str, Any]]:
    """Return a function that makes the column ``value`` of entries."""

    def read(entries: Entries) -> dict[str, Any]:
        raw = pa.array([None if entry is None else entry[_WORD:] for entry in entries], pa.binary())
        return {"value": decode(raw, value)}

    return read


@dataclass(frozen=True)
class TableSource:
    """Keeps the newest value of each key of a topic; a record without a value deletes it."""

    name: str
    spec: StoreSpec
    key: Serde
    value: Serde
    dropped: DroppedRecords
    caching: bool
    old: OldValues

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """Return the last row of each key, and all rows without caching."""
        store = stores[self.spec.name]
        all_rows = rows = without_nulls(rows, ("key",), self.name, self.dropped)
        keys = encode(rows["key"], self.key)
        before = self._stored(keys, store) if self.old.sent else None
        table = pa.table({"key": keys, "row": np.arange(rows.num_rows)})
        last = table.group_by("key", use_threads=False).aggregate([("row", "max")])["row_max"].combine_chunks()
        rows, keys = rows.take(last), keys.take(last)
        time = times(rows)
        store.saw(int(time.max(initial=-1)))
        values = encode(rows["value"], self.value)
        there = values.is_valid()
        entries = pc.binary_join_element_wise(
            pa.array(stamps(time), pa.binary()), values, pa.scalar(b"", pa.binary())
        ).filter(there)
        store.put(keys.filter(there).to_pylist(), entries.to_pylist())
        gone = pc.invert(there)
        for key, at in zip(keys.filter(gone).to_pylist(), pa.array(time).filter(gone).to_pylist(), strict=True):
            store.delete(key, at)
        handed_on = rows if self.caching else all_rows
        if before is None:
            return handed_on
        of = encode(handed_on["key"], self.key).cast(pa.binary())
        indices = pc.index_in(of, before["key"])
        places = pa.DictionaryArray.from_arrays(indices, before["key"])
        return handed_on.append_column(OLD, previous_values(places, handed_on["value"], before["value"]))

    def _stored(self, keys: Any, store: StateStore) -> Any:
        """Return what the store has for these keys."""
        names = pc.unique(keys)
        entries = store.get(names.to_pylist()) if len(names) else []
        return {"key": names, **value_reader(self.value)(entries)}


@dataclass(frozen=True)
class Join:
    """Gives each row of a stream what a table has for its key.

    Without a ``joiner`` that is the column ``table_value`` (``table_…`` for a table of several columns).
    """

    name: str
    table: str
    view: View
    given: tuple[Serde, Serde]
    of_table: Serde
    outer: bool
    joiner: Callable[[Any, Any], Any] | None
    made: Serde
    dropped: DroppedRecords

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """Return the rows that have a partner, or all rows with ``outer``. Those without a value are dropped, and those
        without a key unless ``outer``, as in Kafka Streams.
        """
        rows = without_nulls(rows, ("value",) if self.outer else ("key", "value"), self.name, self.dropped)
        partners_of, indices = self._partners(rows, stores)
        one_value = "value" in partners_of.schema.names
        found = partners_of["value"].is_valid() if one_value else pa.array(times(partners_of) >= 0)
        there = found.take(indices).fill_null(False)
        names = [name for name in partners_of.schema.names if name not in ("key", "timestamp")]
        columns = {name: partners_of[name].take(indices) for name in names}
        if not self.outer:
            rows = rows.filter(there)
            columns = {name: column.filter(there) for name, column in columns.items()}
        if self.joiner is None:
            for name, column in columns.items():
                rows = rows.append_column(f"table_{name}", column)
            return rows
        try:
            partners = to_python(columns["value"], self.of_table)
        except (ValueError, TypeError):
            raise misfit(rows, columns["value"], self.of_table, f"the value in table {self.table}") from None
        made = [
            calling(self._call, self.name, record, record, partner)
            for record, partner in zip(records(rows, *self.given), partners, strict=True)
        ]
        return rows.set_column(
            rows.schema.get_field_index("value"), "value", returned(made, self.made, self.name, partial(place, rows))
        )

    def _partners(self, rows: Any, stores: Mapping[str, StateStore]) -> tuple[Any, Any]:
        """Return what the table has, and which of it each row gets: of versions that of its time."""
        keys = encode(rows["key"], self.given[0])
        if isinstance(self.view, VersionedView):
            there = np.flatnonzero(keys.is_valid().to_numpy(zero_copy_only=False))
            partners = self.view.look_up_at(keys.drop_null().to_pylist(), times(rows)[there].tolist(), stores)
            return partners, pc.index_in(pa.array(np.arange(rows.num_rows)), pa.array(there))
        keys = keys.dictionary_encode()
        return self.view.look_up(keys.dictionary.to_pylist(), stores), keys.indices

    def _call(self, record: Record, partner: Any) -> Any:
        assert self.joiner is not None
        return self.joiner(record.value, partner)


def _has_headers(rows: Any) -> bool:
    return "headers" in rows.schema.names


def _there(names: list[bytes], entries: Any) -> tuple[list[bytes], list[bytes]]:
    if None not in entries:
        return names, list(entries)
    both = [(name, entry) for name, entry in zip(names, entries, strict=True) if entry is not None]
    return [name for name, _ in both], [entry for _, entry in both]
