"""What a fetched batch becomes: itself where a broker takes it with another header, else the same records encoded
again.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from semel.errors import ConfigError, DataLoss
from semel.mirror.copy import SMALL, batches
from semel.read.columns import Columns
from semel.read.cursor import PartitionCursor, Taken
from semel.read.ranges import Range
from semel.records.codecs import Codec
from semel.records.decode import decode
from semel.records.encode import encode
from semel.records.header import HEADER_SIZE, pack, scan
from semel.transaction.ticket import TicketTopic

ROWS = pa.table(
    {
        "key": pa.array([b"a", None, b"c", b"d"]),
        "value": pa.array([b"1" * 30, b"2" * 30, None, b"4" * 30]),
        "timestamp": pa.array([10, 11, 9, 12], pa.int64()),
        "headers": pa.array(
            [[("h", b"1")], [], [("h", None)], None],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
    }
)


def batch(rows: pa.Table = ROWS, *, codec: Codec = Codec.ZSTD, **changes: Any) -> bytes:
    """As a log holds it at offset 100, with ``changes`` of its header."""
    (made,) = encode(rows, codec=codec, producer_id=7, producer_epoch=1, base_sequence=5)
    joined = memoryview(b"".join(made.chunks))
    (header,) = scan(joined)
    changed = replace(header, base_offset=100, leader_epoch=3, **changes)
    body = joined[HEADER_SIZE:]
    return pack(changed, [body]) + bytes(body)


def copied(text: bytes, *, start: int = 100, end: int = 1000, most: int = 10_000) -> list[memoryview]:
    buffer = memoryview(text)
    part = PartitionCursor(
        Range("in", "AAAAAAAAAAAAAAAAAAAAAA", 0, start, end), start, Columns(("in", 0), headers=True)
    )
    headers = scan(buffer)
    taken = Taken(part, buffer, headers, start, min(headers[-1].next_offset, end))
    return [piece.batch for piece in batches(taken, TicketTopic(uuid.uuid4(), 1, most), "out-0")]


def records(found: list[memoryview]) -> list[dict[str, object]]:
    rows = [decode(one, scan(one), headers=True).drop_columns(["offset", "timestampType"]) for one in found]
    return [row for each in rows for row in each.to_pylist()]


ALL = records([memoryview(batch())])


@pytest.mark.parametrize("codec", list(Codec))
def test_a_whole_batch_stays_as_it_is(codec: Codec) -> None:
    text = batch(codec=codec)
    (found,) = copied(text)
    assert bytes(found) == text
    assert copied(batch(codec=codec, delete_horizon=True))[0] == batch(codec=codec, delete_horizon=True)


def test_a_part_of_a_batch_is_encoded_again() -> None:
    assert records(copied(batch(), start=102)) == ALL[2:]
    assert records(copied(batch(), end=103)) == ALL[:3]
    assert copied(batch(), start=104) == []
    (found,) = copied(batch(ROWS.slice(0, 4), codec=Codec.LZ4), start=101)
    assert scan(found)[0].codec in (Codec.LZ4, Codec.NONE)


def test_gaps_are_closed() -> None:
    (found,) = copied(batch(last_offset_delta=9))
    (header,) = scan(found)
    assert (header.count, header.last_offset_delta, header.base_offset) == (4, 3, 0)
    assert records([found]) == ALL


def test_log_append_time_becomes_the_time_of_each_record() -> None:
    found = copied(batch(log_append_time=True, max_timestamp=77_000))
    assert {row["timestamp"].timestamp() for row in records(found)} == {77.0}  # type: ignore[attr-defined]
    assert not scan(found[0])[0].log_append_time


def test_a_batch_too_large_is_cut() -> None:
    rows = pa.table({"value": [b"%d" % i * 20 for i in range(50)]})
    text = batch(rows, codec=Codec.NONE)
    found = copied(text, most=500)
    assert len(found) > 1
    assert max(map(len, found)) <= 500
    assert records(found) == records([memoryview(text)])
    assert bytes(copied(text, most=len(text))[0]) == text


def test_a_record_too_large_is_named() -> None:
    rows = pa.table({"value": [b"x", b"y" * 1000, b"z"]})
    with pytest.raises(
        ConfigError,
        match=r"RECORD_TOO_LARGE. the record at offset 101 of in-0 cannot be written to out-0: .* raise"
        r" max.message.bytes of out-0",
    ):
        copied(batch(rows, codec=Codec.NONE), most=500)


def test_a_batch_without_records_is_left_out() -> None:
    (made,) = encode(ROWS, codec=Codec.NONE)
    (header,) = scan(memoryview(b"".join(made.chunks)))
    empty = pack(replace(header, count=0, size=HEADER_SIZE, base_offset=100), [])
    assert copied(empty) == []


def in_a_row(*texts: bytes) -> bytes:
    """Batches as a log holds them, one after the other from offset 100."""
    found, offset = b"", 100
    for text in texts:
        (header,) = scan(memoryview(text))
        found += offset.to_bytes(8, "big") + text[8:]
        offset += header.last_offset_delta + 1
    return found


def test_a_run_of_small_batches_is_merged() -> None:
    text = in_a_row(*(batch(codec=codec) for codec in (Codec.NONE, Codec.ZSTD, Codec.ZSTD, Codec.GZIP) * 5))
    (found,) = copied(text)
    assert records([found]) == ALL * 20
    assert scan(found)[0].codec is Codec.ZSTD
    assert records(copied(text, start=102, end=178)) == (ALL * 20)[2:-2]
    assert len(copied(text, most=500)) > 1
    assert records(copied(text, most=500)) == ALL * 20


def test_large_batches_between_small_ones_stay_whole() -> None:
    large = batch(pa.table({"value": [os.urandom(SMALL)]}))
    text = in_a_row(batch(), batch(), large, batch(), large, large)
    found = copied(text)
    assert [len(one) for one in found][1:] == [len(large), len(batch()), len(large), len(large)]
    assert records(found) == records([memoryview(one) for one in (batch(), batch(), large, batch(), large, large)])


def test_a_run_that_does_not_fit_stays_as_it_is() -> None:
    """A record that only its own codec makes small enough."""
    small, zeros = batch(codec=Codec.NONE), batch(pa.table({"value": [bytes(3_000)]}), codec=Codec.ZSTD)
    text = in_a_row(small, small, zeros)
    assert [len(one) for one in copied(text, most=300)] == [len(small), len(small), len(zeros)]


def test_what_comes_after_the_end_is_left_out() -> None:
    """An answer may bring more than the round was planned for, and a batch no record of what is wanted."""
    text = in_a_row(batch(), batch(), batch())
    assert records(copied(text, end=104)) == ALL
    assert records(copied(text, end=106)) == ALL + ALL[:2]
    gap = batch(last_offset_delta=9)
    assert copied(gap, start=105) == []


def test_damage_in_a_run_is_not_merged() -> None:
    text = bytearray(in_a_row(batch(), batch(), batch()))
    text[len(batch()) + HEADER_SIZE + 5] ^= 1
    with pytest.raises(DataLoss, match=r"CORRUPT_RECORDS.*offset 104 of in-0 is damaged: its CRC is"):
        copied(bytes(text))


@pytest.mark.parametrize("at", [HEADER_SIZE, HEADER_SIZE + 20, -1])
def test_damage_is_not_given_a_new_checksum(at: int) -> None:
    text = bytearray(batch())
    text[at] ^= 1
    for start in (100, 101):
        with pytest.raises(DataLoss, match=r"CORRUPT_RECORDS.*offset 100 of in-0 is damaged: its CRC is"):
            copied(bytes(text), start=start)
