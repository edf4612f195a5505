"""The five codecs of record batches: none, gzip, snappy, lz4 (frame format), zstd.

pyarrow does the work. Two framings are ours. Snappy blocks go in the xerial stream that Java clients write and read;
raw snappy from other clients is read too. lz4 frames have independent blocks, since Java refuses the linked ones that
pyarrow makes. Several gzip members, lz4 or zstd frames, or xerial streams one after the other are read as one. Zero
bytes after the last gzip member are skipped, as in Java and librdkafka.

Compressed data is not trusted: output beyond ``limit`` raises :class:`Damaged` when the limit is passed, not after it
has been allocated. Memory is a small multiple of the real output, plus the decoder's own window (zstd: 128 MiB at most,
by its library's default).
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum

import numpy as np
import pyarrow as pa

from semel.errors import ConfigError

__all__ = ["Codec", "Damaged", "TooMuch", "compress", "decompress"]


class Codec(IntEnum):
    """The compression of a batch, numbered as in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def parse(cls, name: str) -> Codec:
        """Return the codec with this Kafka name (``compression.type``)."""
        try:
            return cls[name.strip().upper()]
        except KeyError:
            names = ", ".join(codec.name.lower() for codec in cls)
            raise ConfigError(
                f"compression {name!r} is none of {names}. Nothing was written.", tag="WRONG_VALUE"
            ) from None


class Damaged(ValueError):
    """Compressed bytes that cannot be decompressed.

    The caller that knows the batch raises a DataLoss that names it.
    """


class TooMuch(Damaged):
    """Compressed bytes that hold more than the caller's limit. They may be sound."""


XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK = 32 * 1024
#: Three bytes of snappy make 64 at most, so a block that says more is damaged: seen before anything is allocated.
SNAPPY_RATIO = 22

#: Magic, flags (version 1, independent blocks, no checksums), blocks of at most 64 KiB, checksum of these two bytes.
LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
LZ4_BLOCK = 64 * 1024
LZ4_STORED = 0x80000000

#: Kafka's own default levels.
_GZIP = pa.Codec("gzip", compression_level=6)
_ZSTD = pa.Codec("zstd", compression_level=3)
_SNAPPY = pa.Codec("snappy")
_LZ4_BLOCK = pa.Codec("lz4_raw")

_FIRST_READ = 64 * 1024


def compress(codec: Codec, data: memoryview) -> bytes | memoryview:
    """Return ``data`` compressed. With :attr:`Codec.NONE` it is ``data`` itself."""
    if codec is Codec.NONE:
        return data
    if codec is Codec.SNAPPY:
        return _xerial(data)
    if codec is Codec.LZ4:
        return _lz4_frame(data)
    library = _GZIP if codec is Codec.GZIP else _ZSTD
    compressed: bytes = library.compress(data, asbytes=True)
    return compressed


def decompress(codec: Codec, data: memoryview, limit: int) -> bytes | memoryview:
    """Return ``data`` decompressed. Raise :class:`Damaged` if it is broken, or holds more than ``limit`` bytes.

    With :attr:`Codec.NONE` it is ``data`` itself.
    """
    if codec is Codec.NONE:
        return data
    try:
        if codec is not Codec.SNAPPY:
            try:
                return _stream(codec.name.lower(), data, limit)
            except (OSError, pa.ArrowException):
                if codec is Codec.GZIP and data[-1] == 0:
                    return _gunzip(bytes(data), limit)
                raise
        if data[: len(XERIAL_MAGIC)] == XERIAL_MAGIC:
            return _unxerial(data, limit)
        return _unsnappy(data, 0, limit)
    except (OSError, pa.ArrowException, zlib.error) as error:
        raise Damaged(f"{codec.name.lower()} cannot read it: {error}") from None


def _too_much(limit: int) -> TooMuch:
    return TooMuch(f"it decompresses to more than {limit} bytes")


def _stream(name: str, data: memoryview, limit: int) -> bytes | memoryview:
    """Read to the end of all frames in growing portions. No more is allocated than a multiple of the output so far."""
    chunks: list[memoryview] = []
    total = 0
    portion = max(_FIRST_READ, 4 * len(data))
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), name) as stream:
        while True:
            # not read(): with broken data, pyarrow never frees the memory of the result
            room = np.empty(min(portion, limit - total + 1), np.uint8).data
            chunk = room[: stream.readinto(room)]
            if not chunk:
                break
            chunks.append(chunk)
            total += len(chunk)
            if total > limit:
                raise _too_much(limit)
            portion = max(portion, total)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _gunzip(data: bytes, limit: int) -> bytes:
    """Return all gzip members decompressed. Zero bytes after them are skipped; pyarrow takes those for damage."""
    parts: list[bytes] = []
    total = 0
    while data.strip(b"\0"):
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        parts.append(member.decompress(data, limit - total + 1))
        total += len(parts[-1])
        if total > limit:
            raise _too_much(limit)
        if not member.eof:
            raise Damaged("gzip cannot read it: it is cut off")
        data = member.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _xerial(data: memoryview) -> bytes:
    parts: list[bytes] = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK):
        block: bytes = _SNAPPY.compress(data[start : start + XERIAL_BLOCK], asbytes=True)
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)


def _unxerial(data: memoryview, limit: int) -> bytes:
    parts: list[bytes] = []
    position = total = 0
    while position < len(data):
        if data[position : position + len(XERIAL_MAGIC)] == XERIAL_MAGIC:
            position += len(XERIAL_HEADER)
            continue
        begin = position + 4
        position = begin + int.from_bytes(data[position:begin], "big")
        if position > len(data):
            raise Damaged("a snappy block is cut off")
        parts.append(_unsnappy(data[begin:position], total, limit))
        total += len(parts[-1])
    return b"".join(parts)


def _unsnappy(block: memoryview, before: int, limit: int) -> bytes:
    """Return one raw block decompressed. ``before`` is the size of the output so far."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise Damaged("a snappy block does not say its size")
    if before + size > limit:
        raise _too_much(limit)
    if size > SNAPPY_RATIO * len(block):
        raise Damaged(f"a snappy block of {len(block)} bytes says it holds {size}")
    raw: bytes = _SNAPPY.decompress(block, size, asbytes=True)
    return raw


def _lz4_frame(data: memoryview) -> bytes:
    parts: list[bytes | memoryview] = [LZ4_HEADER]
    for start in range(0, len(data), LZ4_BLOCK):
        raw = data[start : start + LZ4_BLOCK]
        block: bytes = _LZ4_BLOCK.compress(raw, asbytes=True)
        if len(block) < len(raw):
            parts += (struct.pack("<I", len(block)), block)
        else:
            parts += (struct.pack("<I", len(raw) | LZ4_STORED), raw)
    parts.append(bytes(4))
    return b"".join(parts)
