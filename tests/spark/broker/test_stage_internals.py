"""Pins the parts of a Python stage of Spark: it is made in few calls, and is what ``mapInArrow`` makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from semel.spark.jvm import python_stage
from semel.spark.jvm.python_stage import map_in_arrow
from tests.spark.support.java_calls import calls_of_the_jvm

SCHEMA = t.StructType().add("text", "string").add("columns", "string")


class Named:
    """A stage that says which rows and columns it was given."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            texts = [f"{self._name}{number}" for number in batch.column("id").to_pylist()]
            names = pa.array([",".join(batch.schema.names)] * len(texts))
            yield pa.RecordBatch.from_arrays([pa.array(texts), names], ["text", "columns"])


def test_it_gives_what_map_in_arrow_gives(spark: SparkSession) -> None:
    rows = spark.range(0, 6, 1, 2).selectExpr("cast(id as string) as key", "id")
    for name in ("a", "b"):
        made = map_in_arrow(rows, Named(name), SCHEMA, ["key", "id"])
        assert made.schema == rows.mapInArrow(Named(name), SCHEMA).schema
        assert made.collect() == rows.mapInArrow(Named(name), SCHEMA).collect()
        assert {row.columns for row in made.collect()} == {"key,id"}


def test_a_second_one_is_made_in_four_calls(spark: SparkSession) -> None:
    rows = spark.range(3)
    map_in_arrow(rows, Named("first"), SCHEMA, ["id"])
    with calls_of_the_jvm() as calls:
        map_in_arrow(rows, Named("second"), SCHEMA, ["id"])
    with calls_of_the_jvm() as control:
        rows.mapInArrow(Named("second"), SCHEMA)
    assert len(calls) == 4 < 20 < len(control)


@pytest.mark.parametrize("otherwise", ["large", "other parts"])
def test_what_cannot_be_made_so_is_made_by_pyspark(spark: SparkSession, otherwise: str) -> None:
    rows = spark.range(3)
    name = "x" * (1 << 20) if otherwise == "large" else "x"
    parts = {"side_effect": AttributeError} if otherwise == "other parts" else {"wraps": python_stage._map_in_arrow}
    with patch.object(python_stage, "_map_in_arrow", **parts) as tried:
        texts = [row.text for row in map_in_arrow(rows, Named(name), SCHEMA, ["id"]).collect()]
    assert texts == [f"{name}{number}" for number in range(3)]
    assert tried.called == (otherwise == "other parts")
