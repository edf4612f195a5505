"""Kafka's flexible encoding (KIP-482) for frames that are read and written by hand: Produce, Fetch, and the header of
every answer.
"""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["Cursor", "text", "varint"]


class Cursor:
    """A reader of a frame from its beginning, never beyond its end."""

    def __init__(self, frame: memoryview, position: int) -> None:
        self.frame = frame
        self.position = position

    def take(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Read values of a fixed layout."""
        values = layout.unpack_from(self.frame, self.position)
        self.position += layout.size
        return values

    def slice(self, size: int) -> memoryview:
        """Read this many bytes without a copy."""
        if self.position + size > len(self.frame):
            raise ValueError(f"{size} bytes at {self.position} end beyond the frame's {len(self.frame)}")
        self.position += size
        return self.frame[self.position - size : self.position]

    def varint(self) -> int:
        """Read an unsigned number of variable length."""
        value = shift = 0
        while True:
            byte = self.frame[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise ValueError(f"the number at {self.position} is longer than 5 bytes")

    def count(self) -> int:
        """Read the number of entries of a compact array; 0 for a null one."""
        return max(self.varint() - 1, 0)

    def tags(self) -> dict[int, memoryview]:
        """Read the tagged fields that end a structure."""
        return {self.varint(): self.slice(self.varint()) for _ in range(self.varint())}

    def skip_tags(self) -> Cursor:
        """Skip the tagged fields."""
        self.tags()
        return self


def varint(value: int) -> bytes:
    """Return an unsigned number of variable length."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def text(value: str | None) -> bytes:
    """Return a compact string, or null."""
    if value is None:
        return b"\0"
    encoded = value.encode()
    return varint(len(encoded) + 1) + encoded
