"""Control batches: the markers with which a transaction coordinator ends a transaction on a partition.

Key: int16 version, int16 type (0 abort, 1 commit). Value: int16 version, int32 coordinator epoch. Later versions only
add to the end, so they are read too. Control records of other types (leader changes, snapshots, KRaft) give None, as
does a batch that compaction left without its record.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from semel.records.bodies import DECOMPRESSED_LIMIT, body
from semel.records.header import BatchHeader, check_crc, corrupt
from semel.records.varint import read_one

__all__ = ["MarkerKind", "is_abort", "marker"]

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


@dataclass(frozen=True, slots=True)
class MarkerKind:
    """The end of a transaction on one partition. Its producer id and epoch are in the batch's header."""

    ABORT: ClassVar[int] = 0
    COMMIT: ClassVar[int] = 1

    kind: int
    coordinator_epoch: int

    @property
    def committed(self) -> bool:
        """True for a COMMIT marker."""
        return self.kind == MarkerKind.COMMIT


def marker(buffer: memoryview, header: BatchHeader, *, where: str = "") -> MarkerKind | None:
    """Return the marker in a control batch of ``buffer``, or None if the batch holds another record or none. Its CRC is
    checked.
    """
    if not header.control:
        raise ValueError("not a control batch: its rows are for decode()")
    if not header.count:
        return None
    check_crc(buffer, header, where)
    try:
        key, value = _record(memoryview(body(buffer, header, DECOMPRESSED_LIMIT, where)))
        _, kind = _KEY.unpack_from(key)
        if kind not in (MarkerKind.ABORT, MarkerKind.COMMIT):
            return None
        _, epoch = _VALUE.unpack_from(value)
    except (ValueError, struct.error):
        raise corrupt(where, header.base_offset, "its control record cannot be read") from None
    return MarkerKind(kind, epoch)


def is_abort(buffer: memoryview, header: BatchHeader, *, where: str = "") -> bool:
    """Return True if a control batch of ``buffer`` holds an ABORT marker."""
    end_marker = marker(buffer, header, where=where)
    return end_marker is not None and not end_marker.committed


def _record(data: memoryview) -> tuple[memoryview, memoryview]:
    """Return key and value of the first record."""
    length, position = read_one(data, 0, len(data))
    end = min(position + length, len(data))
    _, position = read_one(data, position + 1, end)
    _, position = read_one(data, position, end)
    parts: list[memoryview] = []
    for _ in range(2):
        size, position = read_one(data, position, end)
        after = position + max(size, 0)
        if after > end:
            raise ValueError("a field leaves its record")
        parts.append(data[position:after])
        position = after
    return parts[0], parts[1]
