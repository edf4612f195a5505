"""Updates of a table that wait: until their window closes, or for a time. The newest of each key is handed on.

An entry of the store is an update with its headers, by the time from which it waits. For a time limit there is a second
one for each key, which says where its update is.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from semel.records.record_headers import Headers, header_pairs, headers_column
from semel.serdes.serde import Serde, decode, encode
from semel.streams.rows import times, timestamps
from semel.streams.state.state_store import StateStore, StoreSpec, number
from semel.streams.windows.kind import WindowKind

__all__ = ["Suppress", "ValueForm"]

_WORD = 8
_UPDATE, _PLACE = b"\0", b"\1"
_HEAD = struct.Struct(">iqqb")
#: What is there after the key.
_VALUE, _HEADERS = 1, 2
_SIZE = struct.Struct(">i")
_NEVER = 2**63 - 1


@dataclass(frozen=True)
class ValueForm:
    """The form in which a table's values wait: bytes of the serde, or numbers as JSON."""

    serde: Serde
    types: Mapping[str, Any]

    @property
    def _one(self) -> bool:
        return list(self.types) == ["value"] and not pa.types.is_integer(self.types["value"])

    def write(self, rows: Any) -> list[bytes | None]:
        """Return the values of rows as bytes."""
        if self._one:
            found: list[bytes | None] = encode(rows["value"], self.serde).to_pylist()
            return found
        lists = zip(*(rows[name].to_pylist() for name in self.types), strict=True)
        return [None if one.count(None) == len(one) else json.dumps(one).encode() for one in lists]

    def read(self, values: list[bytes | None]) -> dict[str, Any]:
        """Return the columns of such bytes."""
        if self._one:
            return {"value": decode(pa.array(values, pa.binary()), self.serde)}
        lists = [[None] * len(self.types) if one is None else json.loads(one) for one in values]
        columns = {name: [one[at] for one in lists] for at, name in enumerate(self.types)}
        return {
            name: pa.array(column, None if any(isinstance(one, float) for one in column) else self.types[name])
            for name, column in columns.items()
        }


@dataclass
class _Waiting:
    """What is known of a store: no update waits from before ``earliest`` or lies before ``first``."""

    earliest: int = 0
    first: bytes = _UPDATE
    count: int = 0


@dataclass(frozen=True)
class Suppress:
    """Lets updates wait for ``wait_ms``: from the end of their window with ``until_close``, else from their own time.

    With ``most`` updates the oldest ones go before their time.
    """

    name: str
    spec: StoreSpec
    key: Serde
    form: ValueForm
    windows: WindowKind | None
    until_close: bool
    wait_ms: int
    most: int | None
    _waiting: WeakKeyDictionary[StateStore, _Waiting] = field(default_factory=WeakKeyDictionary)

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """Take updates, and return those that wait no longer."""
        store = stores[self.spec.name]
        waiting = self._waiting.get(store)
        if waiting is None:
            waiting = self._waiting[store] = _Waiting(count=sum(1 for _ in store.scan(_UPDATE, _PLACE)))
        keys = encode(rows["key"], self.key)
        names, bounds = keys.to_pylist(), [(0, 0)] * rows.num_rows
        if self.windows is not None:
            starts, ends = (rows[f"window_{bound}"].cast(pa.int64()).to_pylist() for bound in ("start", "end"))
            bounds = list(zip(starts, ends, strict=True))
            names = self.windows.keys.in_output(keys, rows).to_pylist()
        headers = [b""] * rows.num_rows
        if "headers" in rows.schema.names:
            headers = list(map(_packed, rows["headers"].to_pylist()))
        columns = zip(
            names, keys.to_pylist(), bounds, self.form.write(rows), times(rows).tolist(), headers, strict=True
        )
        made: list[bytes] = []
        for name, key, (start, end), value, time, packed in columns:
            store.saw(time)
            there = (0 if value is None else _VALUE) | (_HEADERS if packed else 0)
            entry = _stamp(time) + _HEAD.pack(len(key), start, end, there) + key + packed + (value or b"")
            self._put(store, waiting, name, end if self.until_close else time, entry)
            made += self._due(store, waiting)
        return self._rows(made)

    def _put(self, store: StateStore, waiting: _Waiting, name: bytes, time: int, entry: bytes) -> None:
        """Let an update wait, in the place of an earlier one of its key."""
        if not self.until_close:
            (place,) = store.get([_PLACE + name])
            if place is None:
                store.put([_PLACE + name], [_stamp(time)])
            else:
                time = number(place)
        there = _UPDATE + _stamp(time) + name
        waiting.count += store.get([there]) == [None]
        waiting.earliest, waiting.first = min(waiting.earliest, time), min(waiting.first, there)
        store.put([there], [entry])

    def _due(self, store: StateStore, waiting: _Waiting) -> list[bytes]:
        """Remove and return the updates that have waited, and the oldest of too many."""
        latest = store.stream_time - self.wait_ms
        most = _NEVER if self.most is None else self.most
        if waiting.earliest > latest and waiting.count <= most:
            return []
        found: list[tuple[bytes, bytes]] = []
        waiting.earliest, first = _NEVER, waiting.first
        for name, entry in store.scan(first, _PLACE):
            time = number(name[1:])
            if time > latest and waiting.count - len(found) <= most:
                waiting.earliest, waiting.first = time, name
                break
            found.append((name, entry))
        for name, _ in found:
            store.delete(name, store.stream_time)
            if not self.until_close:
                store.delete(_PLACE + name[1 + _WORD :], store.stream_time)
        if waiting.earliest == _NEVER:
            waiting.first = _PLACE
        waiting.count -= len(found)
        return [entry for _, entry in found]

    def _rows(self, entries: list[bytes]) -> Any:
        updates = [one for one in map(_parsed, entries) if not self.until_close or one[3] is not None]
        keys, starts, ends = ([one[at] for one in updates] for at in range(3))
        bounds = {} if self.windows is None else {"window_start": timestamps(starts), "window_end": timestamps(ends)}
        headers = [one[5] for one in updates]
        if any(headers):
            bounds["headers"] = headers_column(headers)
        return pa.RecordBatch.from_pydict(
            {
                "key": decode(pa.array(keys, pa.binary()), self.key),
                **bounds,
                **self.form.read([one[3] for one in updates]),
                "timestamp": timestamps([one[4] for one in updates]),
            }
        )


def _stamp(time: int) -> bytes:
    """Return a time as 8 bytes."""
    return time.to_bytes(_WORD, "big")


def _packed(headers: list[dict[str, Any]] | None) -> bytes:
    """Return the headers of a row as bytes, and none of them as nothing."""
    if not headers:
        return b""
    data = json.dumps([(key, None if value is None else value.hex()) for key, value in header_pairs(headers)]).encode()
    return _SIZE.pack(len(data)) + data


def _parsed(entry: bytes) -> tuple[bytes, int, int, bytes | None, int, Headers]:
    """Return key, start, end, value, time and headers of an update."""
    size, start, end, there = _HEAD.unpack_from(entry, _WORD)
    at = _WORD + _HEAD.size
    key, at, headers = entry[at : at + size], at + size, []
    if there & _HEADERS:
        (size,) = _SIZE.unpack_from(entry, at)
        at += _SIZE.size
        pairs = json.loads(entry[at : at + size])
        headers, at = [(name, None if value is None else bytes.fromhex(value)) for name, value in pairs], at + size
    return key, start, end, entry[at:] if there & _VALUE else None, number(entry), headers
