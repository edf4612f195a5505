from __future__ import annotations

import gzip
import random
import resource
import struct
from pathlib import Path

import pyarrow as pa
import pytest

from semel.errors import ConfigError
from semel.records import Codec
from semel.records.codecs import Damaged, compress, decompress

COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"the same words again and again, " * 5000 + random.Random(3).randbytes(70_000)


def unpack(codec: Codec, data: bytes, limit: int = 1 << 24) -> bytes:
    return bytes(decompress(codec, memoryview(data), limit))


def test_names() -> None:
    assert [Codec.parse(name) for name in ("none", "gzip", "snappy", "lz4", " ZSTD ")] == list(Codec)
    with pytest.raises(ConfigError, match=r"SEMEL_UNKNOWN_CODEC.*'brotli'"):
        Codec.parse("brotli")


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(65_536), bytes(65_537)], ids=len)
def test_round_trip_to_the_limit_and_one_beyond(codec: Codec, data: bytes) -> None:
    packed = bytes(compress(codec, memoryview(data)))
    assert unpack(codec, packed, len(data)) == data
    if codec and data:
        with pytest.raises(Damaged, match="more than"):
            unpack(codec, packed, len(data) - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_several_frames_are_read_as_one(codec: Codec) -> None:
    parts = [bytes(compress(codec, memoryview(data))) for data in (TEXT, b"", b"and more")]
    assert unpack(codec, b"".join(parts)) == TEXT + b"and more"


@pytest.mark.parametrize("codec", COMPRESSED)
def test_rubbish_behind_a_frame(codec: Codec) -> None:
    with pytest.raises(Damaged):
        unpack(codec, bytes(compress(codec, memoryview(TEXT))) + b"rubbish, rubbish")


def test_gzip_of_another_library() -> None:
    assert unpack(Codec.GZIP, gzip.compress(TEXT[:1000]) + gzip.compress(b"tail")) == TEXT[:1000] + b"tail"
    assert gzip.decompress(compress(Codec.GZIP, memoryview(TEXT))) == TEXT


@pytest.mark.parametrize("zeros", [1, 2, 3, 4, 9, 5_000])
@pytest.mark.parametrize("text", [b"x", TEXT[:256], TEXT, bytes(1 << 16)], ids=len)
def test_gzip_with_zero_bytes_behind_it(zeros: int, text: bytes) -> None:
    """As Java and librdkafka read it; the limit and damage are seen there, too."""
    padded = gzip.compress(text) + gzip.compress(b"tail") + bytes(zeros)
    assert unpack(Codec.GZIP, padded, len(text) + 4) == text + b"tail"
    with pytest.raises(Damaged, match="more than"):
        unpack(Codec.GZIP, padded, len(text) + 3)
    with pytest.raises(Damaged):
        unpack(Codec.GZIP, gzip.compress(text)[:-9] + bytes(zeros))
    with pytest.raises(Damaged):
        unpack(Codec.GZIP, padded + b"x")


def test_raw_snappy_and_xerial_by_hand() -> None:
    """A literal of five bytes, raw; then as two blocks of a stream whose versions are little-endian, as some producers
    write them.
    """
    block = b"\x05\x10hello"
    assert unpack(Codec.SNAPPY, block) == b"hello"
    for order in (">", "<"):
        stream = b"\x82SNAPPY\0" + struct.pack(order + "ii", 1, 1) + (struct.pack(">i", len(block)) + block) * 2
        assert unpack(Codec.SNAPPY, stream) == b"hellohello"


def test_snappy_is_written_as_java_reads_it() -> None:
    stream = bytes(compress(Codec.SNAPPY, memoryview(TEXT)))
    assert stream[:16] == bytes.fromhex("82534e41505059000000000100000001")
    size = int.from_bytes(stream[16:20], "big")
    assert pa.Codec("snappy").decompress(stream[20 : 20 + size], 32 * 1024, asbytes=True) == TEXT[: 32 * 1024]


def test_lz4_is_written_as_java_reads_it() -> None:
    """Version 1, independent blocks, none above 64 KiB; and a header checksum that the reference library accepts."""
    frame = bytes(compress(Codec.LZ4, memoryview(TEXT)))
    assert frame[:4] == bytes.fromhex("04224d18")
    assert frame[4] & 0b1110_0000 == 0b0110_0000
    assert frame[5] == 0x40
    assert pa.CompressedInputStream(pa.BufferReader(frame), "lz4").read() == TEXT


def test_linked_lz4_blocks_of_other_producers_are_read() -> None:
    assert unpack(Codec.LZ4, pa.compress(TEXT, codec="lz4", asbytes=True)) == TEXT


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
def test_broken_data_leave_no_memory_behind(codec: Codec) -> None:
    """A topic that is damaged is read again and again by whoever retries. pyarrow's own ``read`` keeps 64 KiB for each
    try.
    """
    broken = memoryview(bytes(compress(codec, memoryview(b"order " * 100)))[:-20] + b"\xff" * 40)

    def pages_behind(tries: int) -> int:
        for _ in range(tries):
            with pytest.raises(Damaged):
                decompress(codec, broken, 1 << 20)
        return int(Path("/proc/self/statm").read_text().split()[0])

    before = pages_behind(100)
    assert (pages_behind(1_000) - before) * resource.getpagesize() < 10 << 20
