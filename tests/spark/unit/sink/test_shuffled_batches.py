"""Record batches as rows of Spark: whatever they hold, and however they were made smaller, they come out the same."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.records import Batch
from semel.spark.sink.encode_stage import shuffled, unshuffled

#: Bytes that shrink, and bytes that do not.
_BODIES = st.one_of(
    st.integers(1, 5_000).map(lambda size: b"v" * size),
    st.tuples(st.integers(1, 5_000), st.randoms(use_true_random=False)).map(lambda pair: pair[1].randbytes(pair[0])),
)


def _rows(topic: str, batches: list[Batch], partitions: list[int]) -> pa.RecordBatch:
    named = np.array(partitions, np.int32)
    return shuffled(topic, named % 2, named, batches)


def _batch(header: bytes, body: bytes) -> Batch:
    return Batch((header, memoryview(body)), len(header) + len(body), 1, -1)


@given(st.lists(st.tuples(st.integers(0, 9), _BODIES), min_size=1, max_size=20), st.booleans(), st.integers(0, 3))
def test_batches_come_out_as_they_went_in(pairs: list[tuple[int, bytes]], large: bool, skipped: int) -> None:
    rows = _rows("t", [_batch(b"header", body) for _, body in pairs], [partition for partition, _ in pairs])
    if large:  # spark.sql.execution.arrow.useLargeVarTypes
        position = rows.schema.get_field_index("batch")
        rows = rows.set_column(position, "batch", rows.column("batch").cast(pa.large_binary()))
    found = [
        (topic, partition, bytes(batch))
        for topic, partitions, batches in unshuffled(rows.slice(skipped))
        for partition, batch in zip(partitions.tolist(), batches, strict=True)
    ]
    assert found == [("t", partition, b"header" + body) for partition, body in pairs[skipped:]]


def test_topics_come_in_runs() -> None:
    rows = pa.Table.from_batches(
        [_rows(topic, [_batch(b"", topic.encode())], [index]) for index, topic in enumerate(["a", "b", "b", "a"])]
    ).combine_chunks()
    runs = [
        (topic, partitions.tolist(), [bytes(batch) for batch in batches])
        for topic, partitions, batches in unshuffled(rows.to_batches()[0])
    ]
    assert runs == [("a", [0], [b"a"]), ("b", [1, 2], [b"b", b"b"]), ("a", [3], [b"a"])]


@pytest.mark.parametrize(("body", "crosses"), [(b"v" * 100_000, 1_000), (random.Random(0).randbytes(100_000), 100_000)])
def test_a_batch_crosses_smaller_where_it_can(body: bytes, crosses: int) -> None:
    (value,) = _rows("t", [_batch(b"", body)], [0]).column("batch")
    assert len(value.as_py()) <= crosses
