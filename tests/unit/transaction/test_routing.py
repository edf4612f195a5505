"""The rows of each partition apart, of every layout that text and bytes have."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from semel.transaction.routing import by_partition

TEXTS = ["short", "longer than twelve bytes", None, "", "another that is longer than that"]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
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
