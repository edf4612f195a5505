"""Damaged and hostile input: a clear error, soon, and no memory taken on its word."""

from __future__ import annotations

import random
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from semel.errors import DataLoss, Unsupported
from semel.records import HEADER_SIZE, Codec, decode, encode, scan
from semel.records.codecs import compress
from tests.records.unit.peer import Row, appended, changed, table, varint, written

MIB = 1 << 20
#: Kept, since a pool must outlive all that was allocated from it.
POOLS: list[Any] = []
SAMPLE = [
    Row(
        b"key-%d" % i if i % 2 else None,
        b"some value %d" % i * (i % 7) if i % 5 else None,
        1000 + i,
        [("h", b"x"), ("n", None)][: i % 3],
    )
    for i in range(60)
]


@contextmanager
def few_megabytes() -> Iterator[None]:
    """Neither Python nor Arrow may hold much more than 16 MiB at once."""
    pool = pa.proxy_memory_pool(pa.system_memory_pool())
    POOLS.append(pool)
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
        assert (pool.max_memory() or 0) < 64 * MIB
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)


def reading(batch: bytes, where: str = "in-0", limit: int = 8 * MIB) -> pa.RecordBatch:
    return decode(memoryview(batch), scan(memoryview(batch), where=where), headers=True, limit=limit, where=where)


def refused(batch: bytes, match: str, limit: int = 8 * MIB) -> None:
    with few_megabytes(), pytest.raises(DataLoss, match=match) as caught:
        reading(batch, limit=limit)
    assert caught.value.tag == "CORRUPT_RECORDS"
    assert "in-0" in str(caught.value)


def test_the_measure_of_memory_notices_what_is_too_much() -> None:
    with pytest.raises(AssertionError), few_megabytes():
        bytes(20 * MIB)
    with pytest.raises(AssertionError), few_megabytes():
        pa.allocate_buffer(80 * MIB)


def test_a_wrong_crc_names_partition_and_offset() -> None:
    batch = bytearray(written(enumerate(SAMPLE), base=77))
    batch[-1] ^= 1
    refused(bytes(batch), r"offset 77 of in-0.*CRC")
    (header,) = scan(memoryview(batch))
    assert len(decode(memoryview(batch), [header], check_crcs=False)) == 60


def test_a_cut_off_tail_is_normal_and_ends_the_scan() -> None:
    whole = written(enumerate(SAMPLE))
    for tail in range(len(whole)):
        (header,) = scan(memoryview(whole + whole[:tail]))
        assert (header.position, header.size) == (0, len(whole))
    assert scan(memoryview(whole[:-1])) == []


@pytest.mark.parametrize(
    ("at", "value"),
    [(8, b"\x80\0\0\0"), (8, b"\0\0\0\x10"), (8, bytes(4)), (16, b"\x03"), (16, b"\xff"), (22, b"\x05"), (22, b"\x07")],
)
def test_headers_that_nobody_writes(at: int, value: bytes) -> None:
    batch = bytearray(written(enumerate(SAMPLE)))
    batch[at : at + len(value)] = value
    refused(bytes(batch), "offset 0 of in-0")


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_named(magic: int) -> None:
    batch = bytearray(written(enumerate(SAMPLE)))
    batch[16] = magic
    with pytest.raises(Unsupported, match=rf"OLD_MESSAGE_FORMAT.*in-0.*format {magic}"):
        scan(memoryview(batch), where="in-0")


@pytest.mark.parametrize(
    "changes",
    [
        {"count": -1},
        {"count": 61},
        {"count": 61, "last_offset_delta": 60},
        {"count": 59},
        {"last_offset_delta": -1},
        {"last_offset_delta": 58},
        {"base_offset": -5},
        {"count": 2**31 - 1, "last_offset_delta": 2**31 - 1},
    ],
    ids=str,
)
def test_counts_and_offsets_that_do_not_fit(changes: dict[str, Any]) -> None:
    refused(changed(written(enumerate(SAMPLE)), **changes), "is damaged")


def test_offsets_out_of_order_within_a_batch() -> None:
    batch = written([(0, SAMPLE[0]), (5, SAMPLE[1])])
    refused(changed(written([(5, SAMPLE[0]), (5, SAMPLE[1])])), "out of order")
    refused(changed(batch, last_offset_delta=4), "out of order")


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
def test_decompression_bombs(codec: Codec) -> None:
    packed = bytes(compress(codec, memoryview(bytes(12 * MIB))))
    with few_megabytes(), pytest.raises(Unsupported, match=r"BATCH_TOO_LARGE.*more than 1048576 bytes"):
        reading(changed(written([(0, SAMPLE[0])]), body=packed, codec=codec), limit=MIB)


def test_a_raw_snappy_block_that_lies_about_its_size() -> None:
    refused(
        changed(written([(0, SAMPLE[0])]), body=b"\xff\xff\xff\x1f" + b"x" * 100, codec=Codec.SNAPPY),
        "says it holds",
        limit=1 << 30,
    )
    refused(
        changed(written([(0, SAMPLE[0])]), body=b"\xff\xff\xff\xff\xff", codec=Codec.SNAPPY), "does not say its size"
    )


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_count_that_the_limit_cannot_hold_is_refused_before_decompressing(codec: Codec) -> None:
    refused(
        changed(written(enumerate(SAMPLE)), codec=codec, count=2**31 - 1, last_offset_delta=2**31 - 1),
        "2147483647 records",
    )


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_compressed_bytes_cut_anywhere(codec: Codec) -> None:
    whole = appended(encode(table(SAMPLE), codec=codec))
    assert scan(memoryview(whole))[0].codec is codec
    for behind in range(HEADER_SIZE, len(whole) - 1, 7):
        refused(changed(whole, body=whole[HEADER_SIZE:behind]), "is damaged")


def test_a_header_count_without_room_for_it() -> None:
    head = bytes(3) + varint(-1) + varint(-1)
    for count in (2**31 - 1, 1, -1, -(2**31)):
        record = head + varint(count)
        refused(changed(written([(0, SAMPLE[0])]), body=varint(len(record)) + record), "fields")


@pytest.mark.parametrize("many", [1, 40])
def test_headers_that_leave_or_do_not_fill_their_record(many: int) -> None:
    head = bytes(2)
    for rest in (b"\x08abc\x01", b"\x01\x01", b"\x02a\x03", b"\x02a\x04b", b"\x02a\x02bc", b"\xff\xff\xff\xff\xff"):
        records = b""
        for delta in range(many):
            record = head + varint(delta) + b"\x01\x01" + varint(1) + rest
            records += varint(len(record)) + record
        refused(changed(written(enumerate(SAMPLE[:many])), body=records), "header")


def outcome(buffer: bytes) -> pa.RecordBatch | str:
    """The rows, or the tag of the error; any other exception is a failure."""
    view = memoryview(buffer)
    try:
        decoded = decode(
            view,
            [header for header in scan(view) if not header.control],
            headers=True,
            limit=MIB,
            timestamp_overflow="null",
        )
    except (DataLoss, Unsupported) as error:
        return error.tag
    decoded.validate(full=True)
    return decoded


@settings(max_examples=100)
@given(st.sampled_from(list(Codec)), st.integers(0, 2**32), st.integers(1, 8))
@example(Codec.SNAPPY, 145, 1)
def test_any_bytes_changed_give_rows_or_a_clear_error(codec: Codec, seed: int, many: int) -> None:
    """With the CRC made right again, so that all checks behind it are met.

    Of a length that is damaged nobody can say more than that so much cannot be held.
    """
    chance = random.Random(seed)
    whole = appended(encode(table(SAMPLE), codec=codec))
    body = bytearray(whole[HEADER_SIZE:])
    for _ in range(many):
        body[chance.randrange(len(body))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    found = outcome(changed(whole, body=bytes(body)))
    assert found in ("CORRUPT_RECORDS", "BATCH_TOO_LARGE") if isinstance(found, str) else len(found) == len(SAMPLE)


@settings(max_examples=100)
@given(st.binary(max_size=400))
def test_any_bytes_at_all(raw: bytes) -> None:
    whole = written(enumerate(SAMPLE))
    for buffer in (
        raw,
        whole + raw,
        changed(whole, body=raw),
        changed(whole, body=zlib.compress(raw, wbits=31), codec=Codec.GZIP),
    ):
        found = outcome(buffer)
        assert not isinstance(found, str) or found in ("CORRUPT_RECORDS", "OLD_MESSAGE_FORMAT")
