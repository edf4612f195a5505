"""The search for record starts against a plain walk, on bytes that are made to mislead it."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from semel.records import HEADER_SIZE, Codec, decode, encode, scan
from semel.records.bodies import areas
from semel.records.codecs import Damaged
from semel.records.starts import record_bounds
from semel.records.varint import read_one
from tests.records.unit.peer import appended, varint

Bounds = tuple[list[int], list[int]]


def found(area: bytes, begins: list[int], ends: list[int], window: int, fewest: int = 2, count: int = 0) -> Bounds:
    count = count or (ends[-1] - begins[0]) // 30
    pieces = list(
        record_bounds(
            np.frombuffer(area, np.uint8), np.array(begins), np.array(ends), count, window=window, fewest=fewest
        )
    )
    return [int(i) for p in pieces for i in p[0]], [int(i) for p in pieces for i in p[1]]


def walked(area: bytes, begins: list[int], ends: list[int]) -> Bounds:
    bodies, behind = [], []
    for position, end in zip(begins, ends, strict=True):
        while position < end:
            length, body = read_one(area, position, end)
            position = body + length
            bodies.append(body)
            behind.append(position)
    return bodies, behind


def values(kind: str, chance: random.Random, *, large: bool) -> list[bytes]:
    if kind == "nested":
        inner = appended(encode(pa.table({"value": [chance.randbytes(chance.randrange(40)) for _ in range(40)]})))
        return [inner[chance.randrange(80) :] for _ in range(20)]
    if kind == "zeros":
        return [bytes(chance.randrange(300)) for _ in range(200)]
    if kind == "lengths":
        return [(varint(chance.randrange(6, 90)) + b"\0") * chance.randrange(60) for _ in range(200)]
    if kind == "equal":
        return [chance.randbytes(70 if i != 7_000 else 69) for i in range(9_000 if large else 400)]
    if kind == "long":
        return [chance.randbytes(chance.choice([9_000, 20, 70_000])) for _ in range(20)]
    return [chance.randbytes(chance.randrange(100)) for _ in range(500)]


@pytest.mark.parametrize("kind", ["nested", "zeros", "lengths", "equal", "long", "random"])
@pytest.mark.parametrize("window", [64, 1000, 1 << 20])
@pytest.mark.parametrize("max_bytes", [71_000, 1 << 20])
def test_the_same_as_walking(kind: str, window: int, max_bytes: int) -> None:
    chance = random.Random(f"{kind}{window}{max_bytes}")
    buffer = memoryview(
        appended(encode(pa.table({"value": values(kind, chance, large=window > 1000)}), max_bytes=max_bytes))
    )
    headers = scan(buffer)
    begins = [h.position + HEADER_SIZE for h in headers]
    ends = [h.position + h.size for h in headers]
    expected = walked(bytes(buffer), begins, ends)
    for fewest in (1, 5, 100):
        assert found(bytes(buffer), begins, ends, window, fewest, sum(h.count for h in headers)) == expected


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_small_batches_are_searched_together(codec: Codec) -> None:
    chance = random.Random(5)
    source = pa.table({"value": [chance.randbytes(10) * chance.randrange(1, 9) for _ in range(3000)]})
    buffer = memoryview(appended(encode(source, max_bytes=200, codec=codec)))
    headers = scan(buffer)
    assert len(headers) > 1000
    assert len(list(areas(buffer, headers, check_crcs=True, limit=1 << 20, where=""))) == 1
    assert decode(buffer, headers)["value"].equals(source["value"].combine_chunks().cast(pa.binary()))


RECORD = varint(6) + bytes(6)


def test_an_attributes_byte_that_is_not_zero_is_walked_over() -> None:
    odd = varint(6) + b"\x01" + bytes(5)
    area = RECORD + odd + RECORD
    assert found(area, [0], [21], 1000) == ([1, 8, 15], [7, 14, 21])


@pytest.mark.parametrize(
    ("area", "begins", "ends"),
    [
        (RECORD * 3, [0], [20]),
        (RECORD * 3, [0, 7], [8, 21]),
        (RECORD * 3 + b"\x0c", [0], [22]),
        (RECORD + b"\x0b" + bytes(6), [0], [14]),
        (RECORD + b"\x0a" + bytes(6), [0], [14]),
        (RECORD + b"\xff" * 20, [0], [27]),
        (RECORD + b"\xfe\xff\xff\xff\x0f" + bytes(20), [0], [32]),
        (RECORD * 1000 + b"\x0e" + bytes(6), [0], [7007]),
        (RECORD * 4, [0, 15], [14, 28]),
    ],
    ids=["cut", "over its batch", "stub", "negative", "too short", "endless", "huge", "after many", "gap"],
)
def test_records_that_do_not_fill_their_batch(area: bytes, begins: list[int], ends: list[int]) -> None:
    for window in (64, 1 << 20):
        for fewest in (1, 3, 100):
            with pytest.raises(Damaged):
                found(area, begins, ends, window, fewest)
