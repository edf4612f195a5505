from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.util import decode_varint

from semel.records.varint import longest_size, pack, read, read_one, sizes, zigzag
from tests.records.unit.peer import varint

EDGES = [0, 1, -1, 63, 64, -64, -65, 8191, 8192, -8192, -8193, 2**31 - 1, -(2**31), 2**54, -(2**55), 2**55 - 1]
numbers = st.one_of(st.sampled_from(EDGES), st.integers(-(2**55), 2**55 - 1))


@given(st.lists(numbers, min_size=1, max_size=30) | st.lists(st.integers(-8192, 8191), min_size=1, max_size=30))
def test_arrays_as_kafka_python_writes_them(values: list[int]) -> None:
    words = zigzag(np.array(values))
    packed, size = pack(words)
    raw = [int(word).to_bytes(8, "little")[:length] for word, length in zip(packed, size, strict=True)]
    assert raw == [varint(value) for value in values]
    assert sizes(words).tolist() == size.tolist() == [len(r) for r in raw]
    assert longest_size(max(map(abs, values))) >= max(size)

    area = np.frombuffer(b"".join(raw), np.uint8)
    starts = np.cumsum([0, *size[:-1]])
    got, behind = read(area, starts, 10)
    assert (got.tolist(), behind.tolist()) == (values, np.cumsum(size, dtype=np.int64).tolist())
    for value, start in zip(values, starts.tolist(), strict=True):
        assert decode_varint(area.tobytes(), start) == (value, start + len(varint(value)))
        if len(varint(value)) <= 5:
            assert read_one(area.tobytes(), start, len(area)) == (value, start + len(varint(value)))


def test_ten_bytes() -> None:
    for value in (2**63 - 1, -(2**63), 2**62):
        area = np.frombuffer(varint(value), np.uint8)
        got, behind = read(area, np.array([0]), 10)
        assert (got.tolist(), behind.tolist()) == ([value], [len(area)])


def test_what_does_not_end_lies_behind_the_area() -> None:
    area = np.frombuffer(b"\x01" + b"\xff" * 12, np.uint8)
    for longest in (5, 10):
        _, behind = read(area, np.array([0, 1, 12]), longest)
        assert behind[0] == 1
        assert (behind[1:] > len(area)).all()
    for start, end in ((1, 13), (11, 13), (13, 13)):
        with pytest.raises(ValueError, match="no complete varint"):
            read_one(area.tobytes(), start, end)


def test_empty_arrays() -> None:
    nothing = np.zeros(0, np.int64)
    assert (
        len(sizes(zigzag(nothing)))
        == len(pack(zigzag(nothing))[0])
        == len(read(np.zeros(1, np.uint8), nothing, 5)[0])
        == 0
    )
