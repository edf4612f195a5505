"""The rows that are written: made by Spark as it goes, so cheaply that writing them is what takes the time; how cheaply
is measured too.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

__all__ = ["KEYLESS", "KEYS", "SIZE", "free", "keyed", "kinds", "payload"]

#: Bytes of a value.
SIZE = 100
#: Distinct keys.
KEYS = 10_000
#: Kinds of rows whose keys place none.
KEYLESS = ("no keys", "null keys")
_DIGITS = 20


def payload(number: Column) -> Column:
    """Return a value of :data:`SIZE` bytes that ends in a number."""
    return f.concat(f.lit("v" * (SIZE - _DIGITS)), f.lpad(number.cast("string"), _DIGITS, "0")).cast("binary")


def free(spark: SparkSession, count: int, tasks: int) -> DataFrame:
    """Rows with a value alone."""
    return spark.range(0, count, 1, tasks).select(payload(f.col("id")).alias("value"))


def keyed(spark: SparkSession, count: int, tasks: int) -> DataFrame:
    """Rows with one of :data:`KEYS` keys and a value."""
    key = (f.col("id") * 7919 % KEYS).cast("string").cast("binary")
    return spark.range(0, count, 1, tasks).select(key.alias("key"), payload(f.col("id")).alias("value"))


def kinds(spark: SparkSession, count: int, tasks: int) -> dict[str, DataFrame]:
    """Return the same rows with each kind of keys."""
    values = free(spark, count, tasks)
    none, null = KEYLESS
    return {
        none: values,
        null: values.select(f.lit(None).cast("binary").alias("key"), "value"),
        f"{KEYS:,} keys": keyed(spark, count, tasks),
        "keys all different": values.select(f.substring("value", -_DIGITS, _DIGITS).alias("key"), "value"),
    }
