"""A versioned store: the values of each key over time, for a history (KIP-889).

The history of a key is one entry of its store: its versions, the newest first. Each is 8 bytes of time, 4 bytes of
length (-1: deleted), and the value. It is valid from its time to that of the next one. So a history is one record of
the changelog, and compaction never takes a part of it.

A version that was followed by another one before the history began is deleted when its key gets another one. Keys that
were deleted before are deleted from the store by a scan, each time that the history has moved on by its length.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from semel.streams.state.state_store import StateStore

__all__ = ["NOT_PUT", "VALID_TO_UNDEFINED", "Version", "Versions"]

#: The answer of :meth:`Versions.put` if the version is the newest, and if it is older than the history: Kafka Streams'.
VALID_TO_UNDEFINED, NOT_PUT = -1, -(1 << 63)
_WORD = 8
_HEAD = struct.Struct(">qi")
#: A scan of the whole store is worth it so often, in ms of stream time.
_SWEEP_MS = 60_000


class Version(NamedTuple):
    """A value from a time on. None is a deletion."""

    start: int
    value: bytes | None


class Versions:
    """The view of a store as versions of keys. Stream time is the highest time that was put."""

    def __init__(self, store: StateStore) -> None:
        assert store.spec.history_ms is not None
        self._store, self._history_ms = store, store.spec.history_ms

    @property
    def _horizon(self) -> int:
        """Where the history begins: no version that ends until then is found."""
        return self._store.stream_time - self._history_ms

    def put(self, key: bytes, value: bytes | None, start: int) -> int:
        """Put a version, in this transaction. Return the time of the version after it, ``VALID_TO_UNDEFINED`` if there
        is none, or ``NOT_PUT`` for one that is older than the history: it is counted as late.
        """
        if start < self._horizon:
            self._store.late += 1
            return NOT_PUT
        self._store.saw(start)
        versions = self._read(self._store.get([key])[0])
        newer = [one for one in versions if one.start > start]
        older = [one for one in versions if one.start < start]
        self._write(key, self._kept([*newer, Version(start, value), *older]))
        self._sweep()
        return newer[-1].start if newer else VALID_TO_UNDEFINED

    def get(self, key: bytes, as_of: int | None = None) -> Version | None:
        """Return the version of a key, the newest or that of a time. None where the key was deleted or never there. The
        newest version never expires; the others are not found for a time before the history.
        """
        return self.find([key], [as_of])[0]

    def find(self, keys: Sequence[bytes], as_of: Sequence[int | None]) -> list[Version | None]:
        """Return what :meth:`get` returns, for keys and times side by side."""
        names = list(dict.fromkeys(keys))
        histories = dict(zip(names, map(self._read, self._store.get(names)), strict=True)) if names else {}
        return [self._at(histories[key], at) for key, at in zip(keys, as_of, strict=True)]

    def _at(self, versions: Sequence[Version], as_of: int | None) -> Version | None:
        if as_of is not None and as_of < self._horizon:
            versions = versions[:1]
        found = next((one for one in versions if as_of is None or one.start <= as_of), None)
        return None if found is None or found.value is None else found

    def _kept(self, versions: Sequence[Version]) -> list[Version]:
        """Return the newest version, and those that are followed by another one within the history."""
        return [one for at, one in enumerate(versions) if at == 0 or versions[at - 1].start > self._horizon]

    def _sweep(self) -> None:
        """Delete the keys that were deleted before the history began, if it has moved on since the last time."""
        if self._store.swept is not None and self._horizon < self._store.swept + max(self._history_ms, _SWEEP_MS):
            return
        first, self._store.swept = self._store.swept is None, self._horizon
        if first:
            return
        for key, entry in list(self._store.scan()):
            before = self._read(entry)
            kept = self._kept(before)
            if len(kept) == 1 and kept[0].value is None and kept[0].start <= self._horizon:
                self._store.delete(key, self._store.stream_time)
            elif len(kept) < len(before):
                self._write(key, kept)

    @staticmethod
    def _read(entry: bytes | None) -> list[Version]:
        found, at = [], _WORD
        while entry is not None and at < len(entry):
            start, length = _HEAD.unpack_from(entry, at)
            at += _HEAD.size
            found.append(Version(start, None if length < 0 else entry[at : at + length]))
            at += max(length, 0)
        return found

    def _write(self, key: bytes, versions: Sequence[Version]) -> None:
        # the record's time is the newest version's: a restored store has the stream time of its highest one
        entry = [versions[0].start.to_bytes(_WORD, "big", signed=True)]
        for one in versions:
            entry += [_HEAD.pack(one.start, -1 if one.value is None else len(one.value)), one.value or b""]
        self._store.put([key], [b"".join(entry)])

    @classmethod
    def newest(cls, history: bytes) -> bytes | None:
        """Return the newest value of a history, as the changelog has it, or None if that is a deletion."""
        return cls._read(bytes(_WORD) + history)[0].value
