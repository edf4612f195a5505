"""The columns are exactly those of Spark's kafka source."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from semel.read.columns import Columns, schema

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def decoded(count: int) -> Any:
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([None] * count, pa.binary()),
            "value": pa.array([b"%d" % i for i in range(count)], pa.binary()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array(range(count), pa.timestamp("us", "UTC")),
            "timestampType": pa.array([0] * count, pa.int32()),
            "headers": pa.array([[] if i % 2 else [{"key": "h", "value": b"%d" % i}] for i in range(count)], HEADERS),
        }
    )


def test_the_names_types_and_order_are_sparks() -> None:
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    types = [
        pa.binary(),
        pa.binary(),
        pa.string(),
        pa.int32(),
        pa.int64(),
        pa.timestamp("us", "UTC"),
        pa.int32(),
        HEADERS,
    ]
    assert schema(headers=True) == pa.schema(list(zip(names, types, strict=True)))
    assert schema(headers=False) == pa.schema(list(zip(names, types, strict=True))[:-1])


@pytest.mark.parametrize("headers", [False, True])
def test_batches_of_any_size_follow_each_other(headers: bool) -> None:
    columns = Columns(("orders", 3), headers=headers)
    for count in (2, 0, 5, 1, 7):
        rows = columns.arrange(decoded(count))
        rows.validate(full=True)
        assert rows.schema == schema(headers=headers)
        assert rows.column("topic").to_pylist() == ["orders"] * count
        assert rows.column("partition").to_pylist() == [3] * count
        assert rows.column("offset").to_pylist() == list(range(count))


def test_a_record_without_headers_has_null_and_not_an_empty_list() -> None:
    rows = Columns(("orders", 3), headers=True).arrange(decoded(3))
    assert rows.column("headers").to_pylist() == [[{"key": "h", "value": b"0"}], None, [{"key": "h", "value": b"2"}]]
