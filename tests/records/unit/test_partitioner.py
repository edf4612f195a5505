from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as their_murmur2

from semel.records import murmur2, partition_for

#: From the tests of Kafka's Java client.
VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", VECTORS)
def test_the_vectors_of_the_java_client(key: bytes) -> None:
    assert murmur2(key) == VECTORS[key]


def expected(keys: list[bytes | None], partitions: int, sticky: int) -> list[int]:
    return [sticky if key is None else (their_murmur2(key) & 0x7FFFFFFF) % partitions for key in keys]


@settings(max_examples=40)
@given(
    st.lists(st.one_of(st.none(), st.binary(max_size=40), st.sampled_from(list(VECTORS))), max_size=80),
    st.integers(1, 2**31 - 1),
)
def test_arrays_as_kafka_python_places_them(keys: list[bytes | None], partitions: int) -> None:
    got = partition_for(pa.array(keys, pa.binary()), partitions, 5)
    assert got.dtype == "int32"
    assert got.tolist() == expected(keys, partitions, 5)


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()],
    ids=str,
)
def test_every_layout_sliced_and_chunked(kind: pa.DataType) -> None:
    texts = [None if i % 4 == 0 else "schlüssel"[: i % 10] * (i % 5) for i in range(100)]
    raw = [None if text is None else text.encode() for text in texts]
    keys = pa.array(texts, pa.string()).cast(pa.binary()).cast(kind)
    assert partition_for(keys.slice(7, 50), 12, 3).tolist() == expected(raw, 12, 3)[7:57]
    assert partition_for(pa.chunked_array([keys.slice(0, 9), keys.slice(9)]), 12, 3).tolist() == expected(raw, 12, 3)
    assert partition_for(pa.chunked_array([], kind), 12, 3).tolist() == []
    assert partition_for(pa.nulls(3), 12, 3).tolist() == [3, 3, 3]


def test_a_few_keys_much_longer_than_the_others() -> None:
    chance = random.Random(4)
    keys: list[bytes | None] = [chance.randbytes(chance.choice([3, 8, 20])) for _ in range(100)]
    keys += [chance.randbytes(size) for size in (10_001, 10_002, 10_003, 40_000)]
    assert partition_for(pa.array(keys, pa.binary()), 7, 0).tolist() == expected(keys, 7, 0)
