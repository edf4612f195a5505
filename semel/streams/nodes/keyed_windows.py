"""Aggregations in windows that depend on a key's records: sessions and sliding windows. Rows are taken one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from semel.serdes.serde import Serde, decode, encode
from semel.streams.dropped import DroppedRecords
from semel.streams.nodes.closing import ClosedWindow, Closing
from semel.streams.nodes.folds import Fold
from semel.streams.nodes.stateless import without_nulls
from semel.streams.nodes.stream_time import GroupTimes, stream_times
from semel.streams.nodes.tables.old_values import OLD, OldValues
from semel.streams.rows import times, timestamps
from semel.streams.state.state_store import StateStore, StoreSpec, number
from semel.streams.windows.kind import WindowsOfKey
from semel.streams.windows.record_keys import RecordKeys, SessionKeys

__all__ = ["KeyedAggregate"]

#: Start, end, aggregate and time of a window.
_Window = tuple[int, int, Any, int]
#: What is handed on: place in the store, key, start, end, aggregate, time, entry before, and the row it was made at.
_Row = tuple[bytes, bytes, int, int, Any, int, bytes | None, int]


@dataclass
class _Batch:
    """What a batch changes: windows by their place in the store, and the rows that are handed on."""

    store: StateStore
    kind: WindowsOfKey
    fold: Fold
    #: The newest bound of a window in the store.
    newest: int
    #: Whether rows have old values.
    old: bool
    #: The entries of windows that were there before the batch.
    before: dict[bytes, bytes] = field(default_factory=dict)
    rows: list[_Row] = field(default_factory=list)
    #: The row that is worked on.
    at: int = 0
    changed: dict[bytes, tuple[Any, int]] = field(default_factory=dict)
    names: RecordKeys = field(init=False)
    #: The windows that are to close, if they are handed on then.
    closing: Closing | None = None

    def __post_init__(self) -> None:
        self.names = self.kind.store_keys

    def read(self, key: bytes) -> dict[bytes, _Window]:
        """Return the windows of a key in the store, by their place there."""
        first, last = max(self.newest - self.kind.kept_ms, 0), self.store.stream_time + 1
        size = 8 + len(key) + self.names.tail
        ranges = self.names.ranges(key, first, last) if first <= last else ()
        found = [pair for start, end in ranges for pair in self.store.scan(start, end) if len(pair[0]) == size]
        states = self.fold.states([entry for _, entry in found])
        self.before.update(found)
        return {
            name: (*self.bounds(name), state, number(entry)) for (name, entry), state in zip(found, states, strict=True)
        }

    def bounds(self, name: bytes) -> tuple[int, int]:
        """Return start and end of a window in the store."""
        if isinstance(self.names, SessionKeys):
            return self.names.start(name), self.names.bound(name)
        start = self.names.start(name)
        return start, start + self.kind.reach_ms

    def write(self) -> None:
        """Put what was changed into the store."""
        names = list(self.changed)
        entries = self.fold.entries(
            [state for state, _ in self.changed.values()], [at for _, at in self.changed.values()]
        )
        there = [(name, entry) for name, entry in zip(names, entries, strict=True) if entry is not None]
        self.store.put([name for name, _ in there], [entry for _, entry in there])
        for name, entry in zip(names, entries, strict=True):
            if entry is None:
                self.store.delete(name, self.changed[name][1])


@dataclass
class _Key:
    """The windows of one key."""

    batch: _Batch
    key: bytes
    there: dict[bytes, _Window]

    def windows(self) -> list[_Window]:
        """Return those that are not too old, in the order of the store."""
        oldest = self.batch.newest - self.batch.kind.kept_ms + 1
        bound = self.batch.names.bound
        return [self.there[name] for name in sorted(self.there) if bound(name) >= oldest]

    def put(self, start: int, end: int, state: Any, time: int, row_time: int | None = None, old: Any = None) -> None:
        """Set the aggregate of a window; None deletes it. A row is handed on, with this old value."""
        batch = self.batch
        session = isinstance(batch.names, SessionKeys)
        name = batch.names.in_store(self.key, end if session else start, start if session else 0)
        if state is None:
            self.there.pop(name, None)
        else:
            self.there[name] = (start, end, state, time)
        batch.newest = max(batch.newest, end if session else start)
        batch.changed[name] = (state, time)
        if batch.closing is not None:
            batch.closing.add(name, self.key, start, end)
            return
        before = batch.fold.entries([old], [0])[0] if batch.old else None  # a function may change it later
        row_time = time if row_time is None else row_time
        batch.rows.append((name, self.key, start, end, state, row_time, before, batch.at))


@dataclass(frozen=True)
class KeyedAggregate:
    """Puts rows into the windows of their keys, and folds them into a store."""

    name: str
    spec: StoreSpec
    fold: Fold
    key: Serde
    windows: WindowsOfKey
    dropped: DroppedRecords
    caching: bool
    old: OldValues
    #: The stream times of groups of rows. None: there is one, the store's.
    group_times: GroupTimes | None = None
    #: Whether windows are handed on once, when they have closed.
    on_close: bool = False
    _newest: WeakKeyDictionary[StateStore, int] = field(default_factory=WeakKeyDictionary)

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """Return one row for each update, or with caching the last one of each window."""
        needed = ("key", "value") if self.windows.needs_value else ("key",)
        rows = without_nulls(rows, needed, self.name, self.dropped)
        store = stores[self.spec.name]
        batch = _Batch(store, self.windows, self.fold, self._newest_bound(store), self.old.sent)
        steps, states, late = self.fold.steps(rows), dict[bytes, _Key](), 0
        if self.on_close and rows.num_rows:
            batch.closing = Closing(self.windows, store, int(times(rows).max()))
        keys, time_of = encode(rows["key"], self.key).to_pylist(), times(rows)
        now_at = stream_times(time_of, store.stream_time)
        if self.group_times is not None:
            now_at = self.group_times.at(rows, time_of, stores)
        for at, (key, time, now) in enumerate(zip(keys, time_of.tolist(), now_at.tolist(), strict=True)):
            steps.at = batch.at = at
            state = states.get(key)
            if state is None:
                state = states[key] = _Key(batch, key, batch.read(key))
            late += not self.windows.take(state, time, now, steps)
            store.saw(time)
            if batch.closing is not None:
                batch.rows += self._closed(batch, batch.closing.until(now))
        batch.write()
        self._newest[store] = batch.newest
        self.dropped.count(self.name, late, "late rows")
        return self._handed_on(batch, rows)

    def _closed(self, batch: _Batch, windows: list[ClosedWindow]) -> Iterator[_Row]:
        """Yield the rows of windows that have closed, if they are still there."""
        for one in windows:
            entry = one.entry
            state, time = batch.changed.get(one.name) or (None if entry is None else self.fold.states([entry])[0], 0)
            if state is None:
                continue
            if one.name not in batch.changed and entry is not None:
                time = number(entry)
            session = isinstance(batch.names, SessionKeys)
            yield one.name, one.key, one.start, one.end, state, one.end if session else time, None, batch.at

    def _newest_bound(self, store: StateStore) -> int:
        """Return the newest bound of a window. After a restart it is read from the store."""
        found = self._newest.get(store)
        if found is None:
            names = self.windows.store_keys
            last = store.scan(names.first(max(store.stream_time - self.windows.reach_ms, 0)))
            found = max((names.bound(name) for name, _ in last), default=-1)
        return found

    def _handed_on(self, batch: _Batch, given: Any) -> Any:
        rows = batch.rows
        if self.caching and not self.on_close:
            last = {row[0]: row for row in rows}
            rows = [
                (*row[:6], batch.before.get(name), row[7])
                for name, row in last.items()
                if row[4] is not None or name in batch.before
            ]
        keys, starts, ends, states = ([row[column] for row in rows] for column in (1, 2, 3, 4))
        at = [row[5] for row in rows]
        old = {OLD: self.fold.columns([row[6] for row in rows])["value"]} if self.old.sent else {}
        headers = {}
        if "headers" in given.schema.names and (self.on_close or self.windows.keeps_headers):
            headers["headers"] = given["headers"].take(pa.array([row[7] for row in rows], pa.int64()))
        return pa.RecordBatch.from_pydict(
            {
                **headers,
                "key": decode(pa.array(keys, pa.binary()), self.key),
                "window_start": timestamps(np.array(starts, np.int64)),
                "window_end": timestamps(np.array(ends, np.int64)),
                **self.fold.columns(self.fold.entries(states, at)),
                **old,
                "timestamp": timestamps(at),
            }
        )
