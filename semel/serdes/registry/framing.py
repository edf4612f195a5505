"""Confluent's wire format: a zero, the id of the schema in four bytes, and the value."""

from __future__ import annotations

import struct

from semel.serdes.unfit import Unfit

__all__ = ["HEADER_SIZE", "header", "schema_id"]

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
