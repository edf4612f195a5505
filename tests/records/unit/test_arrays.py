"""Between numpy and Arrow by buffers: the same as pyarrow's own ways, also where a buffer is longer than its array."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from semel.records.arrays import array, joined, nulls, numbers, repeated, validity

SOME = pa.array([5, None, -7, 8, None, 10], pa.int64())
#: All children of a struct of nulls share one buffer, as long as the longest of them needs it.
SHARED = pa.nulls(3, pa.struct([("number", pa.int64()), ("other", pa.binary(13))])).field("number")


@pytest.mark.parametrize("integers", [SOME, SOME.slice(2), SOME.slice(1, 3), SOME.slice(6), pa.array([], pa.int64())])
def test_numbers_and_nulls_of_any_slice(integers: pa.Array) -> None:
    assert nulls(integers).tolist() == integers.is_null().to_pylist()
    assert np.where(nulls(integers), 0, numbers(integers)).tolist() == integers.fill_null(0).to_pylist()


def test_a_buffer_that_does_not_end_with_a_number() -> None:
    assert SHARED.buffers()[1].size % 8, "or this shows nothing"
    assert (len(numbers(SHARED)), nulls(SHARED).tolist()) == (3, [True] * 3)
    assert numbers(pa.Array.from_buffers(pa.int64(), 2, [None, pa.py_buffer(bytes(17))])).tolist() == [0, 0]


def test_arrays_of_numpys() -> None:
    every_second = np.arange(10, dtype=np.int32)[::2]
    assert array(every_second, pa.int32()).equals(pa.array([0, 2, 4, 6, 8], pa.int32()))
    assert array(np.array([3, 4]), pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist() == [3, 4]
    assert repeated("ä", 3).to_pylist() == ["ä"] * 3
    assert repeated("", 2).to_pylist() == ["", ""]
    assert repeated("a", 0).to_pylist() == []


def test_bytes_that_come_in_parts() -> None:
    assert joined([b"ab", b"", b"c"], pa.binary()).to_pylist() == [b"ab", b"", b"c"]
    assert joined([b"ab", b"c"], pa.binary(), [1, 2]).to_pylist() == [b"a", b"bc"]
    assert joined([], pa.binary()).to_pylist() == []


@pytest.mark.parametrize("count", [0, 1, 8, 13])
def test_validity(count: int) -> None:
    null = np.arange(count) % 3 == 1
    values = pa.py_buffer(np.zeros(count, np.int64))
    assert pa.Array.from_buffers(pa.int64(), count, [validity(null), values]).is_null().to_pylist() == null.tolist()
