"""The state of one task: what is committed lies in a backend, what is not is kept beside it.

:meth:`StateStore.apply` is called when the commit of a transaction has been answered. It puts all that the transaction
changed into the backend, together with the offset that its changelog has reached, in one write. So a backend never
holds what was not committed. A worker that opens it after a kill restores only the tail of the changelog.

An entry is 8 bytes of time (milliseconds, big-endian), then the value. The key of a window is where it begins (8
bytes), then the record's key: old windows are one range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any

import numpy as np
import pyarrow as pa

from semel.extras import needs_extras
from semel.streams.cells import items
from semel.streams.clock import now_ms
from semel.streams.state.backend import Backend, Position
from semel.streams.windows.keys import BY_START, StoreKeys

__all__ = ["StateStore", "StoreSpec", "number", "stamps"]

_WORD = 8


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A store in a topology. ``retention_ms`` and ``window_keys`` belong to a store of windows, ``history_ms`` to one
    of versions.

    ``holds`` says in words what decides the bytes of its entries: their kind, windows and serdes. It is kept beside
    them: other words refuse every such store.
    """

    name: str
    retention_ms: int | None = None
    holds: str = ""
    window_keys: StoreKeys = BY_START
    history_ms: int | None = None

    @property
    def has_time(self) -> bool:
        """Whether the rows of other keys change what is found: stream time says what is too old."""
        return self.retention_ms is not None or self.history_ms is not None


class StateStore:
    """One store of one task. One thread uses it."""

    def __init__(self, spec: StoreSpec, backend: Backend) -> None:
        self.spec = spec
        self._backend = backend
        self._puts: dict[bytes, bytes] = {}
        self._deletes: dict[bytes, int] = {}
        #: Keys of puts for :meth:`scan`: sorted ones, some of which were deleted since, and those that are not yet.
        self._in_order: Any = None
        self._unsorted: list[Sequence[bytes]] = []
        self._number = 0
        committed = backend.position()
        self._committed_time = committed.stream_time if committed else -1
        #: The highest time of a row that has come here, those of this transaction included.
        self.stream_time = self._committed_time
        #: Windows that were put when they were older than the retention, and versions older than the history.
        self.late = 0
        #: Where the history began when old versions were last looked for.
        self.swept: int | None = None
        #: Windows that begin earlier are deleted: by what is committed, and by this transaction.
        self._expired = self._expiring = b""

    @property
    def position(self) -> Position | None:
        """The position of the committed state."""
        return self._backend.position()

    @property
    def empty(self) -> bool:
        """True if nothing is committed."""
        return next(self._backend.scan(), None) is None

    @property
    def changed(self) -> int:
        """The number of entries that this transaction has changed."""
        return len(self._puts) + len(self._deletes)

    def get(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the entries of these keys, as this transaction sees them."""
        puts, deletes = self._puts, self._deletes
        if not puts and not deletes:
            return self._backend.get(keys)
        found: list[bytes | None] = [puts.get(key) for key in keys]
        missing = [at for at, entry in enumerate(found) if entry is None and keys[at] not in deletes]
        if missing:
            for at, entry in zip(missing, self._backend.get([keys[at] for at in missing]), strict=True):
                found[at] = entry
        return found

    def keys(self, start: bytes, end: bytes | None) -> list[bytes]:
        """Return the keys from ``start`` to before ``end``, in their order, as this transaction sees them."""
        found = {key for key in self._backend.keys(start, end) if key not in self._deletes}
        found.update(self._put_between(start, end))
        return sorted(found)

    def scan(self, start: bytes = b"", end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and entries from ``start`` to before ``end``, in the order of the keys, as this transaction sees
        them. Change nothing meanwhile.
        """
        puts, deletes = self._puts, self._deletes
        committed = (pair for pair in self._backend.scan(start, end) if pair[0] not in puts and pair[0] not in deletes)
        return merge(committed, ((key, puts[key]) for key in self._put_between(start, end)))

    def _put_between(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Yield the keys of puts. They are sorted when they are asked for: most stores never are."""
        if self._in_order is None:
            with needs_extras("a store", "streams", "Nothing was read."):
                from sortedcontainers import SortedSet
            self._in_order = SortedSet(self._puts)
            self._unsorted.clear()
        for keys in self._unsorted:
            self._in_order.update(keys)
        self._unsorted.clear()
        there = self._in_order.irange(start, end, inclusive=(True, False))
        return (key for key in there if key in self._puts)

    def next_number(self, count: int = 1) -> int:
        """Return the first of ``count`` numbers that no committed entry has got, for as long as the changelog lives."""
        position = self._backend.position()
        first = max(self._number, position.offset if position else 0)
        self._number = first + count
        return first

    def put(self, keys: Sequence[bytes], entries: Sequence[bytes]) -> None:
        """Change entries, in this transaction."""
        if self._in_order is not None:
            self._unsorted.append(keys)
        self._puts.update(zip(keys, entries, strict=True))
        if self._deletes:
            for key in keys:
                self._deletes.pop(key, None)

    def delete(self, key: bytes, timestamp: int) -> None:
        """Delete an entry, in this transaction."""
        self._puts.pop(key, None)
        self._deletes[key] = timestamp

    def saw(self, timestamp: int) -> None:
        """Take note of the time of a row."""
        self.stream_time = max(self.stream_time, timestamp)

    def horizon(self, now: int = -1) -> int:
        """Return where the oldest window begins that is kept, at stream time or at ``now``, whichever is later. As in
        Kafka Streams one that is as old as the retention is not.
        """
        assert self.spec.retention_ms is not None
        return max(self.stream_time, now) - self.spec.retention_ms + 1

    def changes(self) -> pa.Table:
        """Return the changes of this transaction as records of the changelog: columns key, value and timestamp. Windows
        that are too old are deleted here, those of this transaction among them.
        """
        self._expire()
        keys = [*self._puts, *self._deletes]
        windows = None if self.spec.retention_ms is None else self.spec.window_keys
        entries = list(self._puts.values())
        times = [*(number(entry) for entry in entries), *self._deletes.values()]
        values: list[bytes | None] = [entry[_WORD:] for entry in entries]
        values += [None] * len(self._deletes)
        return pa.table(
            {
                "key": pa.array(keys if windows is None else windows.in_changelog(keys), pa.binary()),
                "value": pa.array(values, pa.binary()),
                "timestamp": pa.array(times, pa.int64()).cast(pa.timestamp("ms", "UTC")),
            }
        )

    def apply(self, topic_id: str, offset: int, written_ms: int | None = None) -> None:
        """Apply the committed transaction: its changes and the offset after them go into the backend, in one write. The
        store was at the end of its changelog at ``written_ms``, or is now.
        """
        written = now_ms() if written_ms is None else written_ms
        self._write(Position(topic_id, offset, self.stream_time, written, self.spec.holds))

    def mark(self) -> Callable[[], None]:
        """Return a function that takes back what is changed from now on, in this transaction."""
        puts, deletes = dict(self._puts), dict(self._deletes)
        stream_time, late, number = self.stream_time, self.late, self._number

        def take_back() -> None:
            self._clear_changes()
            self._puts.update(puts)
            self._deletes.update(deletes)
            self.stream_time, self.late, self._number = stream_time, late, number

        return take_back

    def forget(self) -> None:
        """Drop the changes of an aborted transaction."""
        self._clear_changes()
        self.stream_time, self._expiring = self._committed_time, self._expired

    def restore(self, rows: pa.RecordBatch, topic_id: str, offset: int) -> None:
        """Take records of the changelog, up to ``offset``. How old the store is stays as it was: it has not come to the
        end yet.
        """
        times = rows["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy(zero_copy_only=False)
        self.saw(int(times.max(initial=-1)))
        keys: list[bytes] = rows["key"].to_pylist()
        if self.spec.retention_ms is not None:
            keys = self.spec.window_keys.from_changelog(keys)
        values: list[bytes | None] = rows["value"].to_pylist()
        entries = [None if value is None else at + value for at, value in zip(stamps(times), values, strict=True)]
        newest = dict(zip(keys, entries, strict=True))  # of a key, the last record counts
        self._puts.update((key, entry) for key, entry in newest.items() if entry is not None)
        self._deletes.update((key, 0) for key, entry in newest.items() if entry is None)
        before = self._backend.position()
        written = before.written_ms if before else now_ms()
        self._write(Position(topic_id, offset, self.stream_time, written, self.spec.holds))

    def entries(self) -> Iterator[tuple[bytes, int | None, int, bytes]]:
        """All committed entries: the record's key, where its window begins, time and value."""
        for key, entry in self._backend.scan():
            if self.spec.retention_ms is None:
                yield key, None, number(entry), entry[_WORD:]
            else:
                windows = self.spec.window_keys
                yield windows.key(key), windows.start(key), number(entry), entry[_WORD:]

    def clear(self) -> None:
        """Throw away all that is there."""
        self.forget()
        self._backend.clear()
        self._committed_time = self.stream_time = -1
        self._expired = self._expiring = b""

    def close(self) -> None:
        """Close the backend. Uncommitted changes are dropped."""
        self.forget()
        self._backend.close()

    def _expire(self) -> None:
        """Delete windows that are older than the retention. They are deleted in the changelog, too, which is compacted:
        left to the brokers' clock, windows of old data would go at once.
        """
        if self.spec.retention_ms is None or self.horizon() <= 0:
            return
        end = self.spec.window_keys.first(self.horizon())
        for key in [key for key in self._puts if key < end]:
            del self._puts[key]  # no other transaction has seen it, unless it is committed too
        for key in self._backend.keys(self._expired, end):
            self.delete(key, self.stream_time)
        self._expiring = end

    def _write(self, position: Position) -> None:
        self._backend.write(self._puts.items(), self._deletes, position)
        self._clear_changes()
        self._committed_time, self._expired = self.stream_time, self._expiring

    def _clear_changes(self) -> None:
        self._in_order = None
        for changes in (self._puts, self._deletes, self._unsorted):
            changes.clear()


def number(data: bytes) -> int:
    """Return the first 8 bytes as a number."""
    return int.from_bytes(data[:_WORD], "big", signed=True)


def stamps(times: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[bytes]:
    """Each time as the 8 bytes that an entry begins with."""
    return items(times.astype(">i8"))
