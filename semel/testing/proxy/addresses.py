"""Brokers' addresses in the answers that clients follow, found and replaced: Metadata (versions 0 to 13) and
FindCoordinator (0 to 6).

So a proxy works with any broker, without its own listener in the broker's settings. Not touched: the endpoints that a
broker adds to a NOT_LEADER answer of Produce and Fetch (KIP-951). A client that uses them leaves the proxy until its
next Metadata. An answer that cannot be read is a ``ValueError``, not a broken connection, which a proxy would pass on
and forget.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Address", "addresses", "replaced"]

Address = tuple[str, int]

_METADATA, _FIND_COORDINATOR = 3, 10


@dataclass(frozen=True, slots=True)
class _Field:
    """The position of host and port in an answer, one after the other."""

    start: int
    end: int
    compact: bool
    address: Address


def addresses(key: int, version: int, answer: bytes) -> list[Address]:
    """Return the addresses in this answer (with its correlation id, without its length)."""
    return [field.address for field in _fields(key, version, answer)]


def replaced(key: int, version: int, answer: bytes, by: Mapping[Address, Address]) -> bytes:
    """Return the answer with each address that is in ``by`` replaced."""
    pieces = []
    position = 0
    for field in _fields(key, version, answer):
        host, port = by.get(field.address, field.address)
        pieces += [answer[position : field.start], _text(host, field.compact), struct.pack(">i", port)]
        position = field.end
    return b"".join([*pieces, answer[position:]])


def _fields(key: int, version: int, answer: bytes) -> list[_Field]:
    if key not in (_METADATA, _FIND_COORDINATOR):
        return []
    try:
        fields = (_metadata if key == _METADATA else _coordinators)(version, answer)
    except (ValueError, IndexError, OverflowError, struct.error) as error:
        raise ValueError(
            f"an answer of {len(answer)} bytes to API {key} in version {version} cannot be read: {error}"
        ) from None
    return [field for field in fields if field.address[0] and field.address[1] > 0]


def _metadata(version: int, answer: bytes) -> list[_Field]:
    reader = _Reader(answer, compact=version >= 9)
    reader.tags()
    reader.skip(4 if version >= 3 else 0)  # throttle time
    fields = []
    for _ in range(reader.count()):
        reader.skip(4)  # node id
        fields.append(reader.address())
        if version >= 1:
            reader.text()  # rack
        reader.tags()
    return fields


def _coordinators(version: int, answer: bytes) -> list[_Field]:
    reader = _Reader(answer, compact=version >= 3)
    reader.tags()
    reader.skip(4 if version >= 1 else 0)  # throttle time
    if version <= 3:
        reader.skip(2)  # error code
        if version >= 1:
            reader.text()  # error message
        reader.skip(4)  # node id
        return [reader.address()]
    fields = []
    for _ in range(reader.count()):
        reader.text()  # key
        reader.skip(4)  # node id
        fields.append(reader.address())
        reader.skip(2)  # error code
        reader.text()  # error message
        reader.tags()
    return fields


class _Reader:
    """A reader of an answer after its correlation id."""

    def __init__(self, answer: bytes, *, compact: bool) -> None:
        self._answer = answer
        self._compact = compact
        self._position = 4

    def skip(self, size: int) -> None:
        self._position += size

    def count(self) -> int:
        return self._varint() - 1 if self._compact else self._number(">i", 4)

    def text(self) -> str:
        size = self._varint() - 1 if self._compact else self._number(">h", 2)
        start = self._position
        self.skip(max(size, 0))
        return self._answer[start : self._position].decode()

    def address(self) -> _Field:
        start = self._position
        host = self.text()
        port = self._number(">i", 4)
        return _Field(start, self._position, self._compact, (host, port))

    def tags(self) -> None:
        if self._compact:
            for _ in range(self._varint()):
                self._varint()
                self.skip(self._varint())

    def _number(self, form: str, size: int) -> int:
        (number,) = struct.unpack_from(form, self._answer, self._position)
        self.skip(size)
        return int(number)

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._answer[self._position]
            self.skip(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise ValueError(f"the number at {self._position} is longer than 5 bytes")


def _text(value: str, compact: bool) -> bytes:
    encoded = value.encode()
    if not compact:
        return struct.pack(">h", len(encoded)) + encoded
    head = bytearray()
    size = len(encoded) + 1
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(head) + bytes([size]) + encoded
