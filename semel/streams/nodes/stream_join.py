"""Joins of two streams in a window of time.

The records of both sides lie in stores, by key and time. A record is joined with those of the other side, and then
kept. In a left or outer join a record without a partner waits in a third store until its window has closed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from semel.serdes.serde import Serde, decode, to_python
from semel.streams.dropped import DroppedRecords
from semel.streams.nodes.stateless import to_records
from semel.streams.nodes.waiting import Waiting
from semel.streams.rows import CARRIED, ORIGIN, Record, calling, misfit, place, returned, times, timestamps
from semel.streams.state.state_store import StateStore, StoreSpec
from semel.streams.topology.node import Operator
from semel.streams.windows.join_windows import JoinWindows
from semel.streams.windows.keys import WindowKeys
from semel.streams.windows.record_keys import RecordKeys

__all__ = ["JoinSide", "StreamJoin", "of_side"]

_LEFT = "__left"
_WORD = 8


@dataclass(frozen=True)
class JoinSide:
    """One of the two streams. ``outer``: its records are handed on without a partner, too."""

    spec: StoreSpec
    value: Serde
    outer: bool


def of_side(side: JoinSide, key: Serde, window_keys: WindowKeys, *, left: bool) -> Operator:
    """Return an operator that brings rows of one side into the form that both have: bytes, and which side it is."""

    def operate(rows: Any, _: Mapping[str, StateStore]) -> Any:
        records = to_records(rows, key, side.value, window_keys)
        for name in ORIGIN:
            if name in rows.schema.names:
                records = records.append_column(name, rows[name])
        return records.append_column(_LEFT, pa.array(np.full(rows.num_rows, left)))

    return operate


class _Window:
    """The records of one side while a batch is worked on: those of keys that were asked for, and new ones."""

    def __init__(self, store: StateStore, keys: RecordKeys, first: int, last: int) -> None:
        self._store, self._keys = store, keys
        self._first, self._last = max(first, store.horizon(), 0), min(last, store.stream_time)
        self._there: dict[bytes, tuple[list[int], list[bytes]]] = {}
        self._new: list[tuple[bytes, int, bytes]] = []
        self._new_of_key: dict[bytes, list[tuple[int, bytes]]] = {}

    def between(self, key: bytes, first: int, last: int) -> list[tuple[int, bytes]]:
        """Return the records of a key in this time that are not older than the retention."""
        there, values = self._of_key(key)
        start = bisect_left(there, max(first, self._store.horizon()))
        return list(zip(there[start : bisect_right(there, last)], values[start:], strict=False))

    def saw(self, time: int) -> None:
        """Take note of the time of a record."""
        self._store.saw(time)

    def add(self, key: bytes, time: int, value: bytes) -> None:
        """Keep a record, unless it is older than the retention."""
        if time < self._store.horizon():
            return
        self._new.append((key, time, value))
        if key in self._there:
            _insert(self._there[key], time, value)
        else:
            self._new_of_key.setdefault(key, []).append((time, value))

    def write(self) -> None:
        """Put what was added into the store."""
        if self._new:
            number = self._store.next_number(len(self._new))
            self._store.put(
                [self._keys.in_store(key, time, at) for at, (key, time, _) in enumerate(self._new, number)],
                [time.to_bytes(_WORD, "big") + value for _, time, value in self._new],
            )

    def _of_key(self, key: bytes) -> tuple[list[int], list[bytes]]:
        """Return the times and values of a key, in the order of time."""
        found = self._there.get(key)
        if found is None:
            found = self._there[key] = self._read(key)
            for time, value in self._new_of_key.pop(key, ()):
                _insert(found, time, value)
        return found

    def _read(self, key: bytes) -> tuple[list[int], list[bytes]]:
        size = 2 * _WORD + 4 + len(key)  # longer ones have another key that begins with this one
        ranges = self._keys.ranges(key, self._first, self._last) if self._first <= self._last else ()
        found = [pair for start, end in ranges for pair in self._store.scan(start, end) if len(pair[0]) == size]
        return [self._keys.start(stored) for stored, _ in found], [entry[_WORD:] for _, entry in found]


def _insert(found: tuple[list[int], list[bytes]], time: int, value: bytes) -> None:
    at = bisect_right(found[0], time)
    found[0].insert(at, time)
    found[1].insert(at, value)


@dataclass
class _Joined:
    """The rows that a batch has led to: key, both values, time, and the row that each was made at."""

    rows: list[tuple[bytes | None, bytes | None, bytes | None, int, int]] = field(default_factory=list)

    def add(self, key: bytes | None, left: bool, mine: bytes | None, partner: bytes | None, time: int, at: int) -> None:
        """Add one."""
        self.rows.append((key, mine if left else partner, partner if left else mine, time, at))


@dataclass(frozen=True)
class StreamJoin:
    """Joins rows of two sides, which come in their order. ``waiting`` is the store of a left or outer join.

    Without a ``joiner`` rows have the left value in ``value`` and the right one in ``other_value``.
    """

    name: str
    windows: JoinWindows
    left: JoinSide
    right: JoinSide
    waiting: StoreSpec | None
    key: Serde
    joiner: Callable[[Any, Any], Any] | None
    made: Serde
    dropped: DroppedRecords
    _earliest: WeakKeyDictionary[StateStore, Waiting] = field(default_factory=WeakKeyDictionary)

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """Return the joined rows, and those without a partner whose window has closed."""
        time = times(rows)
        apart = max(self.windows.before_ms, self.windows.after_ms)
        first, last = int(time.min()) - apart, int(time.max()) + apart
        keys = RecordKeys(self.windows.retention_ms)
        sides = {
            left: _Window(stores[side.spec.name], keys, first, last)
            for left, side in ((True, self.left), (False, self.right))
        }
        waiting = self._waiting(stores)
        made, lost = _Joined(), 0
        columns = (rows[name].to_pylist() for name in ("key", "value", _LEFT))
        for at, (key, value, left, now) in enumerate(zip(*columns, time.tolist(), strict=True)):
            if waiting is not None:
                waiting.saw(now)
            if key is not None:
                sides[left].saw(now)  # here, and not where it is kept: a join by itself sees no difference
            if key is None or value is None:
                if value is not None and (self.left if left else self.right).outer:
                    made.add(None, left, value, None, now, at)
                else:
                    lost += 1
                continue
            self._take(made, sides, waiting, (key, value, left, now, at))
            sides[left].add(key, now, value)
        for side in sides.values():
            side.write()
        self.dropped.count(self.name, lost, "rows without a key or value")
        return self._rows(rows, made)

    def _waiting(self, stores: Mapping[str, StateStore]) -> Waiting | None:
        if self.waiting is None:
            return None
        store = stores[self.waiting.name]
        if store not in self._earliest:
            self._earliest[store] = Waiting(store, self.windows)
            for side in (self.left, self.right):
                self._earliest[store].saw(stores[side.spec.name].stream_time)
        return self._earliest[store]

    def _take(
        self,
        made: _Joined,
        sides: Mapping[bool, _Window],
        waiting: Waiting | None,
        row: tuple[bytes, bytes, bool, int, int],
    ) -> None:
        """Join one row with those of the other side, after those whose window has closed by its time."""
        key, value, left, now, at = row
        if waiting is not None and now == waiting.stream_time:
            for one in waiting.closed(left=left):
                made.add(one.key, one.left, one.value, None, one.time, at)
        before, after = self.windows.before_ms, self.windows.after_ms
        first, last = max(now - (before if left else after), 0), max(now + (after if left else before), 0)
        partners = sides[not left].between(key, first, last)
        for time, partner in partners:
            if waiting is not None:
                waiting.remove(key, time, left=not left)
            made.add(key, left, value, partner, max(now, time), at)
        if partners or not (self.left if left else self.right).outer:
            return
        if waiting is None or last < waiting.stream_time:
            made.add(key, left, value, None, now, at)
        else:
            waiting.add(key, now, value, left=left)

    def _rows(self, rows: Any, made: _Joined) -> Any:
        keys, lefts, rights, time, parents = ([row[at] for row in made.rows] for at in range(5))
        taken = pa.array(parents, pa.int64())
        columns = {
            "key": decode(pa.array(keys, pa.binary()), self.key),
            "value": decode(pa.array(lefts, pa.binary()), self.left.value),
            "timestamp": timestamps(time),
            **{name: rows[name].take(taken) for name in CARRIED if name in rows.schema.names},
        }
        other = decode(pa.array(rights, pa.binary()), self.right.value)
        batch = pa.RecordBatch.from_pydict(columns)
        if self.joiner is None:
            return batch.append_column("other_value", other)
        return self._with_values(batch, other)

    def _with_values(self, batch: Any, other: Any) -> Any:
        joiner = self.joiner
        assert joiner is not None
        left, right = self._python(batch, batch["value"], self.left), self._python(batch, other, self.right)
        origin = (batch[name].to_pylist() if name in batch.schema.names else [None] * batch.num_rows for name in ORIGIN)
        made = [
            calling(joiner, self.name, Record(key, None, -1, *where), *pair)
            for key, *where, pair in zip(batch["key"].to_pylist(), *origin, zip(left, right, strict=True), strict=True)
        ]
        column = returned(made, self.made, self.name, lambda at: place(batch, at))
        return batch.set_column(batch.schema.get_field_index("value"), "value", column)

    @staticmethod
    def _python(batch: Any, column: Any, side: JoinSide) -> list[Any]:
        try:
            return to_python(column, side.value)
        except (ValueError, TypeError):
            raise misfit(batch, column, side.value, f"a value of the join's store {side.spec.name}") from None
