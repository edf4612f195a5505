"""Rows in portions that are bounded by what they take decompressed, against kafka-python's records; and every sum of
sizes that 32 bits must hold.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import Unsupported
from semel.records import Codec, decode, encode, scan
from semel.records.arrays import LARGEST, joined, repeated
from semel.records.bodies import areas
from semel.records.columns import VIEW
from semel.records.decode import portions
from semel.records.gather import binary
from semel.records.record_headers import HEADERS, _stretches, pack_headers
from tests.records.unit.peer import Row, appended, read, rows_of, table, written
from tests.records.unit.test_property import rows

MIB = 1 << 20


@settings(max_examples=60)
@given(
    st.lists(st.lists(rows, min_size=1, max_size=40), min_size=1, max_size=6),
    st.sampled_from(list(Codec)),
    st.sampled_from([1, 50, 400, 3_000, 20_000, 64 * MIB]),
    st.integers(0, 250),
    st.one_of(st.none(), st.integers(0, 250)),
)
def test_portions_of_any_size_hold_the_rows_of_the_peer(
    batches: list[list[Row]], codec: Codec, portion: int, start: int, end: int | None
) -> None:
    buffer, offset, expected = b"", 0, []
    for batch in batches:
        raw = written(enumerate(batch), codec=codec, base=offset)
        expected += [(at, row) for at, row in read(raw) if start <= at and (end is None or at < end)]
        buffer, offset = buffer + raw, offset + len(batch)
    view = memoryview(buffer)
    found = list(portions(view, scan(view), start=start, end=end, headers=True, portion=portion))
    assert [pair for part, _ in found for pair in rows_of(part)] == expected
    assert all(len(part) for part, _ in found)
    assert not any(last for _, last in found[:-1])
    if portion == 1:
        assert len(found) == len(expected)


def packed_blanks(batches: int, size: int, count: int = 16) -> memoryview:
    """Batches of so many bytes of blanks each, of which a few hundred are left."""
    one = encode(pa.table({"value": [b" " * (size // count)] * count}), codec=Codec.ZSTD, max_bytes=2 * size)
    return memoryview(appended(one * batches))


def test_memory_follows_the_portion_and_not_the_ratio() -> None:
    """40 batches of 4 MiB, in 20 kB: 160 MiB are never there together."""
    buffer = packed_blanks(40, 4 * MIB)
    assert len(buffer) < 60_000
    pool, before = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        found, next_offset = 0, 0
        for part, _ in portions(buffer, scan(buffer), portion=8 * MIB):
            assert part.nbytes < 13 * MIB
            assert part["offset"][0].as_py() == next_offset
            next_offset += len(part)
            found += 1
            del part
        assert (found, next_offset) == (40, 640)
        # a portion, its area, and the area behind it, each perhaps twice while it grows
        assert tracemalloc.get_traced_memory()[1] < 32 * MIB
        assert (pool.max_memory() or 0) < 32 * MIB
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)


def test_one_batch_that_is_larger_than_a_portion_is_split() -> None:
    buffer = packed_blanks(2, 4 * MIB, count=64)
    sizes = [(len(part), last) for part, last in portions(buffer, scan(buffer), portion=MIB)]
    assert sum(count for count, _ in sizes) == 128
    assert max(count for count, _ in sizes) <= 17
    assert [last for _, last in sizes] == [False] * (len(sizes) - 1) + [True]


def test_a_batch_beyond_the_limit_is_refused_and_not_called_damaged() -> None:
    buffer = packed_blanks(1, 4 * MIB)
    with pytest.raises(Unsupported, match=r"BATCH_TOO_LARGE.*offset 0 of in-0.*more than 1048576 bytes"):
        decode(buffer, scan(buffer), limit=MIB, where="in-0")


def test_no_area_is_ever_as_large_as_a_position_can_say() -> None:
    """However high the limit: the area's other batches have to fit beside the last one."""
    buffer = packed_blanks(1, 4 * MIB)
    with pytest.raises(Unsupported, match="BATCH_TOO_LARGE"):
        list(areas(buffer, scan(buffer), check_crcs=True, limit=1 << 40, where="in-0", most=LARGEST - MIB))


def test_values_that_one_array_cannot_hold_are_refused() -> None:
    """pyarrow's cast from views lets the offsets wrap, so that rows have other rows' values."""
    with pytest.raises(Unsupported, match="ARROW_LIMIT"):
        joined([], pa.binary(), [LARGEST, 1])
    with pytest.raises(Unsupported, match="ARROW_LIMIT"):
        joined([], pa.binary(), np.array([1 << 30, 1 << 30], np.int32))
    views = np.zeros((3, VIEW), np.int32)
    views[:, 0] = 1 << 30
    with pytest.raises(Unsupported, match="ARROW_LIMIT"):
        binary(views, [pa.py_buffer(b"x" * 100)])
    assert len(repeated("topic", 3)) == 3


def test_headers_of_any_sizes_are_joined_in_pieces_below_the_limit() -> None:
    sizes = [0, 10, 5_000, 10, 10, 9_000, 0, 3]
    lists = pa.array([[{"key": "k", "value": b"x" * size}] if size else [] for size in sizes], HEADERS)
    cuts = _stretches(lists, 1_000)
    assert [start for start, _ in cuts] == [0, *(stop for _, stop in cuts[:-1])]
    assert cuts[-1][1] == len(sizes)
    assert all(stop - start == 1 or lists.slice(start, stop - start).nbytes <= 1_000 for start, stop in cuts)
    assert any(stop - start > 1 for start, stop in cuts)
    assert pack_headers(lists).lengths.tolist() == pack_headers(lists.slice(0)).lengths.tolist()


@settings(max_examples=40)
@given(st.lists(rows, min_size=1, max_size=60), st.integers(1, 400))
def test_what_is_written_is_read_by_portions(given_rows: list[Row], portion: int) -> None:
    buffer = memoryview(appended(encode(table(given_rows), codec=Codec.ZSTD, max_bytes=20_000)))
    found = [
        pair for part, _ in portions(buffer, scan(buffer), headers=True, portion=portion) for pair in rows_of(part)
    ]
    assert found == list(enumerate(given_rows))
