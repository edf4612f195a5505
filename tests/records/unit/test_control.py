from __future__ import annotations

import struct
from typing import Any

import pytest

from semel.errors import DataLoss
from semel.records import MarkerKind, marker, scan
from tests.records.unit.peer import Row, changed, written


def control(key: bytes | None, value: bytes | None, **changes: Any) -> memoryview:
    return memoryview(
        changed(written([(0, Row(key, value, 5, []))], base=9), control=True, transactional=True, **changes)
    )


def read(buffer: memoryview) -> MarkerKind | None:
    return marker(buffer, scan(buffer)[0], where="in-0")


@pytest.mark.parametrize("kind", [MarkerKind.ABORT, MarkerKind.COMMIT])
@pytest.mark.parametrize("rest", [b"", b"\0\0\0\x02"], ids=["v0", "later"])
def test_markers(kind: int, rest: bytes) -> None:
    found = read(control(struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 17) + rest))
    assert found == MarkerKind(kind, 17)
    assert found.committed is (kind == MarkerKind.COMMIT)


@pytest.mark.parametrize("kind", [2, 3, 4, 5, 6, -1])
def test_other_control_records_are_none_of_ours(kind: int) -> None:
    assert read(control(struct.pack(">hh", 0, kind), b"")) is None


def test_compaction_leaves_control_batches_without_records() -> None:
    buffer = memoryview(changed(bytes(control(b"k", b"v")), body=b"", count=0))
    (header,) = scan(buffer)
    assert (header.control, header.count, header.next_offset) == (True, 0, 10)
    assert marker(buffer, header) is None


@pytest.mark.parametrize(
    ("key", "value"), [(None, None), (b"\0\0\0", b""), (b"\0\0\0\1", b"\0\0"), (b"\0\0\0\1", None)]
)
def test_markers_that_cannot_be_read(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(DataLoss, match=r"CORRUPT_RECORDS.*offset 9 of in-0"):
        read(control(key, value))


def test_damage() -> None:
    buffer = bytearray(control(b"\0\0\0\1", struct.pack(">hi", 0, 17)))
    buffer[-2] ^= 1
    with pytest.raises(DataLoss, match="CRC"):
        read(memoryview(buffer))
    plain = memoryview(written([(0, Row(None, None, 5, []))]))
    with pytest.raises(ValueError, match="not a control batch"):
        read(plain)
    for body in (b"", b"\x0c", b"\x0c\0\0\0\x10\0\0\0"):
        with pytest.raises(DataLoss, match="CORRUPT_RECORDS"):
            read(memoryview(changed(bytes(buffer), body=body)))
