"""Variable-length integers of record batch v2, whole arrays at a time.

Numbers are zigzag-coded, then written in groups of 7 bits, lowest first, with the high bit of each byte but the last
set. Lengths, counts and offset deltas have at most 5 bytes, timestamp deltas at most 10. Numbers written here have at
most 8 (:func:`pack`), so that each fits in a machine word, which is fast. Lengths never need more, and :mod:`.encode`
refuses timestamps that would.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ints", "Words", "longest_size", "pack", "read", "read_one", "sizes", "zigzag"]

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]


def zigzag(values: Ints) -> Words:
    """Return signed numbers as unsigned ones whose size grows with the distance from 0."""
    # use addition: numpy's shifts check each amount and do not vectorise
    return ((values + values) ^ -(values < 0).astype(np.int64)).view(np.uint64)


def sizes(words: Words) -> NDArray[np.uint8]:
    """Return the number of bytes of each zigzagged number."""
    result = np.ones(len(words), np.uint8)
    top = int(words.max(initial=0))
    bound = 1 << 7
    while top >= bound:
        result += (words >= np.uint64(bound)).view(np.uint8)
        bound <<= 7
    return result


def longest_size(magnitude: int) -> int:
    """Return the most bytes that a signed number takes whose absolute value is at most ``magnitude``."""
    return max(1, -(-(2 * magnitude).bit_length() // 7))


def pack(words: Words) -> tuple[Words, NDArray[np.uint8]]:
    """Return the bytes of each zigzagged number in one word, the first byte lowest, and the number of bytes.

    Numbers must be below 2**56.
    """
    top = int(words.max(initial=0))
    size = np.ones(len(words), np.uint8)
    if top < 0x80:
        return words, size
    packed = words & np.uint64(0x7F)
    group = 1
    while top >> (7 * group):
        longer = words >= np.uint64(1 << (7 * group))
        packed += longer * np.uint64(1 << (8 * group - 1))
        packed += (words & np.uint64(0x7F << (7 * group))) * np.uint64(1 << group)
        size += longer.view(np.uint8)
        group += 1
    return packed, size


def read(area: NDArray[np.uint8], positions: Ints, longest: int) -> tuple[Ints, Ints]:
    """Return the signed numbers that begin at ``positions``, and the positions after them.

    Nothing raises here. Beyond the area its last byte is read again. A number that does not end within ``longest``
    bytes gives a position after the area. The caller's check of each record's bounds finds both.
    """
    byte = area.take(positions, mode="clip")
    more = byte > 0x7F
    if not more.any():
        return ((byte >> 1) ^ -(byte & 1)).view(np.int8).astype(np.int64), positions + 1
    after = positions + 1
    second = area.take(after, mode="clip")
    if not (more & (second > 0x7F)).any():
        # two bytes hold most numbers, and 16-bit arithmetic takes a quarter of the time
        pairs = (byte & 0x7F) | ((second.astype(np.uint16) << 7) * more)
        return ((pairs >> 1) ^ -(pairs & 1)).view(np.int16).astype(np.int64), after + more
    words = (byte & 0x7F).astype(np.uint64)
    shift = 7
    while more.any():
        if shift == 7 * longest:
            after[more] = len(area) + 1
            break
        byte = area.take(after, mode="clip")
        words |= ((byte & 0x7F) * more).astype(np.uint64) << np.uint64(shift)
        after += more
        more &= byte > 0x7F
        shift += 7
    signed = (words >> np.uint64(1)) ^ (np.uint64(0) - (words & np.uint64(1)))
    return signed.view(np.int64), after


def read_one(data: bytes | memoryview, position: int, end: int) -> tuple[int, int]:
    """Return one signed number of at most 5 bytes in ``data`` before ``end``, and the position after it.

    Raise ValueError if there is none.
    """
    word = shift = 0
    for index in range(position, min(position + 5, end)):
        byte = data[index]
        word |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (word >> 1) ^ -(word & 1), index + 1
        shift += 7
    raise ValueError("no complete varint")
