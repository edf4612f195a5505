"""The records of batches, checked against their CRC and decompressed, laid out so that many batches can be read as one.

Uncompressed batches stay where they are, in the fetched buffer. Compressed ones are decompressed and joined. Either way
the result is an :class:`Area`: bytes, and where in them each batch's records begin and end.

Bounds: a batch may decompress to at most the caller's limit (1 GiB unless told otherwise), and one whose record count
cannot fit in that is refused before anything is decompressed. An area ends at the first batch that takes it above 4
MiB, and the next one is made when it is asked for, so decompressed data is not all held at once. No area reaches 2 GiB:
positions in it fit in 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from semel.errors import Unsupported
from semel.records.arrays import LARGEST
from semel.records.codecs import Codec, Damaged, TooMuch, decompress
from semel.records.header import HEADER_SIZE, SMALLEST_RECORD, BatchHeader, check_crc, corrupt
from semel.records.varint import Ints

__all__ = ["AREA", "DECOMPRESSED_LIMIT", "Area", "areas", "body"]

#: Bytes that one batch may decompress to. Usual batches are made of a few MiB; beyond this it is an attack, damage, or
#: one enormous row.
DECOMPRESSED_LIMIT = 1 << 30

#: An area ends at the first batch that takes it above so many bytes.
AREA = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Area:
    """Records of several batches; between the batches may be bytes that belong to none."""

    data: NDArray[np.uint8]
    headers: tuple[BatchHeader, ...]
    begins: Ints
    ends: Ints


def body(buffer: memoryview, header: BatchHeader, limit: int, where: str) -> bytes | memoryview:
    """The records of one batch."""
    raw = buffer[header.position + HEADER_SIZE : header.position + header.size]
    if header.codec is not Codec.NONE and header.count * SMALLEST_RECORD > limit:
        raise corrupt(
            where,
            header.base_offset,
            f"it says that it holds {header.count} records, which is more than {limit} bytes can",
        )
    try:
        data = decompress(header.codec, raw, limit)
    except TooMuch as error:
        raise Unsupported(
            f"the record batch at offset {header.base_offset}{' of ' + where if where else ''} cannot be held:"
            f" {error}, from {len(raw)} bytes. Nothing of this batch was read. Start after it, or have its producer"
            " write smaller batches (its max.request.size).",
            tag="BATCH_TOO_LARGE",
        ) from None
    except Damaged as error:
        raise corrupt(where, header.base_offset, str(error)) from None
    if header.count * SMALLEST_RECORD > len(data):
        raise corrupt(where, header.base_offset, f"{header.count} records do not fit in {len(data)} bytes")
    return data


def areas(
    buffer: memoryview, headers: Sequence[BatchHeader], *, check_crcs: bool, limit: int, where: str, most: int = AREA
) -> Iterator[Area]:
    """The batches in order, in as few areas as their sizes allow: each ends at the first batch that takes it above
    ``most`` bytes.
    """
    limit = min(limit, LARGEST - most)
    pending: list[BatchHeader] = []
    bodies: list[bytes | memoryview] = []
    size = 0
    for header in headers:
        if check_crcs:
            check_crc(buffer, header, where)
        pending.append(header)
        bodies.append(body(buffer, header, limit, where))
        size += len(bodies[-1])
        if size > most:
            yield _area(buffer, pending, bodies)
            pending, bodies, size = [], [], 0
    if pending:
        yield _area(buffer, pending, bodies)


def _area(buffer: memoryview, headers: list[BatchHeader], bodies: list[bytes | memoryview]) -> Area:
    sizes = np.array([len(data) for data in bodies], np.int64)
    if _in_place(headers):
        first = headers[0].position
        begins = np.array([header.position for header in headers], np.int64) + (HEADER_SIZE - first)
        data = np.frombuffer(buffer[first : headers[-1].position + headers[-1].size], np.uint8)
    else:
        begins = np.cumsum(sizes) - sizes
        data = np.frombuffer(bodies[0] if len(bodies) == 1 else b"".join(bodies), np.uint8)
    return Area(data, tuple(headers), begins, begins + sizes)


def _in_place(headers: list[BatchHeader]) -> bool:
    """Whether the records can be read from the fetched buffer: nothing compressed, and no large stretch of other
    batches in between.
    """
    if any(header.codec is not Codec.NONE for header in headers):
        return False
    span = headers[-1].position + headers[-1].size - headers[0].position
    ordered = all(before.position < after.position for before, after in pairwise(headers))
    return ordered and span <= 2 * sum(header.size for header in headers)
