"""Java's default partitioner: murmur2 of the key, positive, modulo the number of partitions.

All keys are hashed in step, four bytes of each at a time. Keys much longer than the others are finished one by one. The
caller gives the sticky partition for rows without a key, and decides when it changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semel.records.columns import chunks_of, column
from semel.records.varint import Ints

__all__ = ["murmur2", "partition_for", "partition_of"]

_Hashes = NDArray[np.uint32]

_SEED = 0x9747B28C
_M = 0x5BD1E995
_R = 24
_MASK = 0xFFFFFFFF
#: With fewer keys in step, numpy's fixed cost per operation is more than that of a Python loop.
_LOCKSTEP = 16


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash of ``data``, signed as in Java."""
    start = (_SEED ^ len(data)) & _MASK
    mixed = _finish_words(memoryview(data), start)
    hashed = _finish(np.array([mixed], np.uint32), np.frombuffer(data, np.uint8), np.array([0]), np.array([len(data)]))
    return int(hashed.view(np.int32)[0])


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of one key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def partition_for(keys: Any, partitions: int, sticky: int) -> NDArray[np.int32]:
    """Return the partition of each key of a pyarrow Array or ChunkedArray (text or bytes), and ``sticky`` for nulls."""
    parts = [_chunk(chunk, partitions, sticky) for chunk in chunks_of(keys)]
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.int32), *parts])


def _chunk(keys: Any, partitions: int, sticky: int) -> NDArray[np.int32]:
    lengths = column(keys, "key").lengths
    result = np.full(len(lengths), sticky, np.int32)
    present = np.flatnonzero(lengths >= 0)
    if len(present):
        joined = keys.cast(pa.large_binary())
        _, raw, data = joined.buffers()
        starts = np.frombuffer(raw, np.int64)[joined.offset : joined.offset + len(joined)]
        area = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        hashes = _murmur2(area, starts[present], lengths[present])
        result[present] = (hashes & np.uint32(0x7FFFFFFF)) % np.uint32(partitions)
    return result


def _murmur2(area: NDArray[np.uint8], starts: Ints, lengths: Ints) -> _Hashes:
    """Return the hashes of the keys at ``starts``.

    Keys are sorted by length, so that the keys with words left are always the last ones.
    """
    order = np.argsort(lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    hashes = (lengths ^ _SEED).astype(np.uint32)
    words = lengths >> 2
    done, first = 0, int(np.searchsorted(words, 1))
    while len(words) - first >= _LOCKSTEP:
        word = _words(area, starts[first:] + 4 * done)
        hashes[first:] = hashes[first:] * np.uint32(_M) ^ _mix(word)
        done += 1
        first = int(np.searchsorted(words, done + 1))
    data = area.data
    for index in range(first, len(words)):
        rest = data[int(starts[index]) + 4 * done : int(starts[index] + lengths[index])]
        hashes[index] = _finish_words(rest, int(hashes[index]))
    result = np.empty_like(hashes)
    result[order] = _finish(hashes, area, starts, lengths)
    return result


def _words(area: NDArray[np.uint8], at: Ints) -> _Hashes:
    word = area[at].astype(np.uint32)
    for step in (1, 2, 3):
        word |= area[at + step].astype(np.uint32) << np.uint32(8 * step)
    return word


def _mix(word: _Hashes) -> _Hashes:
    word = word * np.uint32(_M)
    word ^= word >> np.uint32(_R)
    return word * np.uint32(_M)


def _finish_words(data: memoryview, hashed: int) -> int:
    """Take all whole words of one key into its hash."""
    words = np.frombuffer(data, "<u4", count=len(data) >> 2).astype(np.uint32)
    for word in _mix(words).tolist():
        hashed = (hashed * _M & _MASK) ^ word
    return hashed


def _finish(hashes: _Hashes, area: NDArray[np.uint8], starts: Ints, lengths: Ints) -> _Hashes:
    """Take the up to three bytes after the words into the hashes, and mix the bits a last time."""
    rest = lengths & 3
    tail = starts + lengths - rest
    for step in (2, 1, 0):
        having = np.flatnonzero(rest > step)
        hashes[having] ^= area[tail[having] + step].astype(np.uint32) << np.uint32(8 * step)
    odd = rest > 0
    hashes[odd] *= np.uint32(_M)
    hashes ^= hashes >> np.uint32(13)
    hashes *= np.uint32(_M)
    hashes ^= hashes >> np.uint32(15)
    return hashes
