"""Confluent's wire format: a zero, the id of the schema in four bytes, and the value.

Protobuf's has a path before the value: the places of the message in its file, and in the messages around it.
"""

from __future__ import annotations

import struct

from semel.serdes.unfit import Unfit

__all__ = ["HEADER_SIZE", "header", "message_path", "schema_id", "written_path"]

_HEADER = struct.Struct(">bI")
HEADER_SIZE = _HEADER.size


def header(schema: int) -> bytes:
    """Return the bytes before a value with this schema."""
    return _HEADER.pack(0, schema)


def schema_id(data: bytes) -> int:
    """Return the id of a value's schema. Raise :class:`Unfit` for bytes without one."""
    if len(data) < HEADER_SIZE or data[0] != 0:
        raise Unfit(f"{bytes(data[:20])!r} does not begin with a zero and the id of a schema")
    return int(_HEADER.unpack_from(data)[1])


def written_path(path: tuple[int, ...]) -> bytes:
    """Return the path of a message. The first message of a file is a zero alone."""
    return b"\0" if path == (0,) else b"".join(map(_varint, (len(path), *path)))


def message_path(data: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """Return the path of a message, and where its bytes begin. Raise :class:`Unfit` for bytes without one."""
    count, at = _read_varint(data, start)
    path = []
    for _ in range(count):
        place, at = _read_varint(data, at)
        path.append(place)
    return tuple(path) or (0,), at


def _varint(number: int) -> bytes:
    """Return a whole number as Avro has it: zigzag, seven bits a byte."""
    number, made = number << 1, bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number >> 1, at
    raise Unfit("bytes have no path of a message after the id of their schema")
