"""Stores of processors: ``stores.key_value("seen")`` and ``stores.window("clicks", retention="1 h")``.

A processor asks its context for them by name, and works on keys and values in the types of the serdes. Its transaction
sees a new value at once, and commits it with the output and the offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from semel.serdes.serde import Serde, check_serde, decode, encode, from_python, to_python
from semel.streams.state.state_store import StateStore, StoreSpec
from semel.streams.state.versions import NOT_PUT, VALID_TO_UNDEFINED, Versions
from semel.streams.windows.duration import milliseconds
from semel.streams.windows.keys import BY_START

__all__ = [
    "NOT_PUT",
    "VALID_TO_UNDEFINED",
    "KeyValueStore",
    "StoreBuilder",
    "VersionedRecord",
    "VersionedStore",
    "WindowStore",
    "key_value",
    "versioned",
    "window",
]

_WORD = 8


@dataclass(frozen=True, eq=False)
class StoreBuilder:
    """A store that processors are given. Give the same one to two processors, and they share it."""

    spec: StoreSpec
    key: Serde
    value: Serde

    def view(self, store: StateStore) -> KeyValueStore | WindowStore | VersionedStore:
        """Return the store as a processor sees it."""
        if self.spec.history_ms is not None:
            return VersionedStore(store, self.key, self.value)
        kind = KeyValueStore if self.spec.retention_ms is None else WindowStore
        return kind(store, self.key, self.value)


def key_value(name: str, *, key: Serde = "string", value: Serde = "json") -> StoreBuilder:
    """Return a builder of a store of keys and values. ``name`` names its changelog topic."""
    return _builder(StoreSpec(name, holds=f"values ({value or 'bytes'}) by key ({key or 'bytes'})"), key, value)


def window(name: str, *, retention: str | int, key: Serde = "string", value: Serde = "json") -> StoreBuilder:
    """Return a builder of a store of values by key and window start. ``retention`` is how long they are kept, by the
    times of the records: milliseconds, or ``"1 h"``.
    """
    holds = f"values ({value or 'bytes'}) by key ({key or 'bytes'}) and window"
    return _builder(StoreSpec(name, milliseconds(retention, "retention"), holds), key, value)


def versioned(name: str, *, history_retention: str | int, key: Serde = "string", value: Serde = "json") -> StoreBuilder:
    """Return a builder of a store of the versions of each key. ``history_retention`` is how long they are found, by the
    highest time that was put: milliseconds, or ``"1 h"``.
    """
    holds = f"versions ({value or 'bytes'}) by key ({key or 'bytes'})"
    history = milliseconds(history_retention, "history_retention")
    return _builder(StoreSpec(name, holds=holds, history_ms=history), key, value)


def _builder(spec: StoreSpec, key: Serde, value: Serde) -> StoreBuilder:
    check_serde(key, spec.name)
    check_serde(value, spec.name)
    return StoreBuilder(spec, key, value)


class _View:
    """``now`` is the time of the record that is worked on, in milliseconds: what is put gets it. ``record_time`` is the
    same, and the highest time of the records so far while a function is called by the machine's clock.
    """

    def __init__(self, store: StateStore, key: Serde, value: Serde) -> None:
        self._store, self._key, self._value = store, key, value
        self.now = self.record_time = 0

    def _read(self, keys: list[bytes]) -> list[Any]:
        entries = self._store.get(keys)
        raw = pa.array([None if entry is None else entry[_WORD:] for entry in entries], pa.binary())
        return to_python(decode(raw, self._value), self._value)

    def _names(self, raw: list[bytes]) -> list[Any]:
        return to_python(decode(pa.array(raw, pa.binary()), self._key), self._key)

    def _raw(self, key: Any) -> bytes:
        return _encoded(key, self._key)

    def _write(self, key: bytes, value: Any) -> None:
        if value is None:
            self._store.delete(key, self.now)
        else:
            self._store.put([key], [self.now.to_bytes(_WORD, "big", signed=True) + _encoded(value, self._value)])


class KeyValueStore(_View):
    """Values by key."""

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None."""
        return self._read([self._raw(key)])[0]

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key; None deletes it."""
        self._write(self._raw(key), value)

    def delete(self, key: Any) -> Any:
        """Delete a key. Returns the value that it had."""
        before = self.get(key)
        self.put(key, None)
        return before

    def range(self, first: Any, last: Any) -> Iterator[tuple[Any, Any]]:
        """Keys and values from ``first`` to ``last``, both included, in the order of the keys' bytes."""
        return self._pairs(self._store.keys(self._raw(first), self._raw(last) + b"\0"))

    def all(self) -> Iterator[tuple[Any, Any]]:
        """All keys and values, in the order of the keys' bytes. Reads the whole store."""
        return self._pairs(self._store.keys(b"", None))

    def _pairs(self, keys: list[bytes]) -> Iterator[tuple[Any, Any]]:
        return iter(list(zip(self._names(keys), self._read(keys), strict=True)))


class WindowStore(_View):
    """Values by key and where their window begins, in milliseconds."""

    def put(self, key: Any, value: Any, window_start: int) -> None:
        """Set the value of a key and window; None deletes it. A window that is older than the retention is dropped and
        counted, as in Kafka Streams.
        """
        if self._is_expired(window_start):
            self._store.late += 1
            return
        self._store.saw(self.record_time)
        self._write(BY_START.first(window_start) + self._raw(key), value)

    def fetch(self, key: Any, window_start: int) -> Any:
        """Return the value of a key and window, or None, also where the window is older than the retention."""
        if self._is_expired(window_start):
            return None
        return self._read([BY_START.first(window_start) + self._raw(key)])[0]

    def fetch_range(self, key: Any, first: int, last: int) -> list[tuple[int, Any]]:
        """Return the windows of a key that begin from ``first`` to ``last``, both included, with their values. It reads
        all keys of that time.
        """
        raw = self._raw(key)
        keys = [one for one in self._between(first, last) if BY_START.key(one) == raw]
        return [(BY_START.start(one), value) for one, value in zip(keys, self._read(keys), strict=True)]

    def fetch_all(self, first: int, last: int) -> list[tuple[Any, int, Any]]:
        """Keys, windows and values of all windows that begin from ``first`` to ``last``, both included."""
        keys = self._between(first, last)
        names = self._names([BY_START.key(one) for one in keys])
        return list(zip(names, map(BY_START.start, keys), self._read(keys), strict=True))

    def _between(self, first: int, last: int) -> list[bytes]:
        first = max(first, self._store.horizon(self.record_time), 0)
        return self._store.keys(BY_START.first(first), BY_START.first(last + 1)) if first <= last else []

    def _is_expired(self, window_start: int) -> bool:
        return window_start < self._store.horizon(self.record_time)


class VersionedRecord(NamedTuple):
    """A version: its value, and the time from which it is valid, in milliseconds."""

    value: Any
    timestamp: int


class VersionedStore(_View):
    """The versions of keys (KIP-889)."""

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        """Put a version; None deletes the key from that time on.

        Returns the time to which it is valid, ``VALID_TO_UNDEFINED`` if it is the newest, or ``NOT_PUT`` if it is older
        than the history: it is dropped and counted, as in Kafka Streams.
        """
        return self._versions.put(self._raw(key), None if value is None else _encoded(value, self._value), timestamp)

    def delete(self, key: Any, timestamp: int) -> VersionedRecord | None:
        """Delete a key from a time on. Returns the version that it had then."""
        before = self.get(key, timestamp)
        self.put(key, None, timestamp)
        return before

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord | None:
        """Return the newest version of a key, or that of a time. None if there is none, and for a time before the
        history unless the newest version is older.
        """
        found = self._versions.get(self._raw(key), as_of)
        if found is None:
            return None
        return VersionedRecord(
            to_python(decode(pa.array([found.value], pa.binary()), self._value), self._value)[0], found.start
        )

    @property
    def _versions(self) -> Versions:
        return Versions(self._store)


def _encoded(given: Any, serde: Serde) -> bytes:
    found: bytes | None = encode(from_python([given], serde), serde)[0].as_py()
    if found is None:
        raise ValueError("the key is None, and a store needs one")
    return found
