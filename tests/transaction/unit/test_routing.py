"""The rows of each partition apart, of every layout that text and bytes have."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from semel.records import encode
from semel.transaction.routing import by_partition, plain_columns

TEXTS = ["short", "longer than twelve bytes", None, "", "another that is longer than that"]


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
@pytest.mark.parametrize("chunked", [False, True])
def test_rows_of_each_partition_keep_their_order(kind: pa.DataType, chunked: bool) -> None:
    rows = pa.record_batch({"value": pa.array(TEXTS, kind), "partition": pa.array([1, 0, 1, 0, 1])})
    table = pa.Table.from_batches([rows, rows.slice(1, 3)]) if chunked else rows
    target = np.array([1, 0, 1, 0, 1, 0, 1, 0][: table.num_rows])
    found = {
        index: [_text(value) for value in part.column("value").to_pylist()]
        for index, part in by_partition(table, target)
    }
    values = [*TEXTS, *TEXTS[1:4]][: table.num_rows]
    assert found == {
        index: [value for value, place in zip(values, target, strict=True) if place == index] for index in (0, 1)
    }


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["four", None, "more"], pa.dictionary(pa.int8(), pa.string())),
        ([b"four", None, b"more"], pa.dictionary(pa.int32(), pa.binary())),
        ([b"four", None, b"more"], pa.binary(4)),
        (["four", None, "more"], pa.string_view()),
        (["four", None, "more"], pa.large_string()),
    ],
    ids=str,
)
@pytest.mark.parametrize("chunked", [False, True])
def test_text_and_bytes_of_every_type_can_be_encoded(
    values: list[str | bytes], kind: pa.DataType, chunked: bool
) -> None:
    column = pa.array(values, kind)
    rows: pa.Table | pa.RecordBatch = pa.record_batch({"key": column, "value": column})
    if chunked:
        rows = pa.Table.from_batches([rows, rows])
    found = plain_columns(rows)
    (batch,) = encode(found)
    assert batch.count == rows.num_rows
    assert [_text(value) for value in found.column("value").to_pylist()] == [
        _text(value) for value in rows.column("value").to_pylist()
    ]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary(), pa.binary_view()], ids=str)
def test_many_small_chunks_are_joined(kind: pa.DataType) -> None:
    """Each partition is handed the buffers of all chunks, and would be as slow as they are many."""
    values = [f"a value that no view holds inline, {number}" for number in range(400)]
    rows = pa.table({"value": pa.chunked_array([pa.array([value]).cast(kind) for value in values])})
    found = by_partition(rows, np.arange(400) % 3)
    assert [index for index, _ in found] == [0, 1, 2]
    for index, some in found:
        column = some.column("value")
        assert column.cast(pa.string()).to_pylist() == values[index::3]
        assert sum(len(chunk.buffers()) for chunk in column.chunks) <= 4
