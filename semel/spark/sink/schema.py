"""The columns that the sink takes, by Spark's own Kafka sink: which are there, of which types, and in which form they
are written.

``value`` must be there; ``key``, ``topic``, ``partition``, ``timestamp`` and ``headers`` may. The source's ``offset``
and ``timestampType`` are dropped, so that what was read can be written; any other column is refused, since it would
silently be lost.
"""

from __future__ import annotations

from difflib import get_close_matches

from pyspark.sql import DataFrame
from pyspark.sql import types as t

from semel.errors import ConfigError
from semel.settings import nearest

__all__ = ["check_columns"]

_HEADERS = t.ArrayType(t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())]))
_TAKES: dict[str, tuple[type[t.DataType], ...]] = {
    "key": (t.StringType, t.BinaryType),
    "value": (t.StringType, t.BinaryType),
    "topic": (t.StringType,),
    "partition": (t.IntegerType,),
    "timestamp": (t.TimestampType,),
    "headers": (t.ArrayType,),
}
_DROPPED = ("offset", "timestampType")


def check_columns(df: DataFrame, topic: str | None, topics: tuple[str, ...]) -> DataFrame:
    """Return a DataFrame with only the columns that are written.

    Raises :class:`ConfigError` before anything is read or written.
    """
    schema = df.schema
    extra = [field.name for field in schema if field.name not in (*_TAKES, *_DROPPED)]
    if "value" not in schema.names:
        (near,) = get_close_matches("value", extra, n=1) or ("",)
        hint = f"; rename {near!r}, if that is it" if near else ""
        raise ConfigError(
            f"there is no column value among {', '.join(schema.names)}. Nothing was written. Give one that name, such"
            f" as to_json(struct(*)){hint}.",
            tag="VALUE_MISSING",
        )
    if extra:
        hint = nearest(extra[0], [name for name in _TAKES if name not in schema.names])
        raise ConfigError(
            f"column {', '.join(extra)} would be lost{hint.rstrip('?')}: a Kafka record has key, value, topic,"
            " partition, timestamp and headers. Nothing was written. Put it into value (to_json(struct(*))), or drop"
            " it.",
            tag="EXTRA_COLUMN",
        )
    for field in schema:
        if field.name in _TAKES:
            _check_type(field)
    written = [name for name in _TAKES if name in schema.names and not (name == "topic" and topic is not None)]
    if topic is None and "topic" not in written:
        raise ConfigError(
            "there is neither an option topic nor a column topic. Nothing was written. Say where the rows go.",
            tag="TOPIC_MISSING",
        )
    if topic is None and not topics:
        raise ConfigError(
            "rows name their topic in a column, and the option topics is missing. Nothing was written. List all"
            " topics that the column may name"
            ' (topics="a,b"): their partitions are added to the transaction before the first row is seen.',
            tag="TOPICS_MISSING",
        )
    if sorted(written) == sorted(schema.names):
        return df  # each plan that Spark makes costs a batch some milliseconds
    return df.select(*written)


def _check_type(field: t.StructField) -> None:
    fits = isinstance(field.dataType, _TAKES[field.name])
    if field.name == "headers" and fits:
        fits = _plain(field.dataType) == _plain(_HEADERS)
    if not fits:
        takes = (
            "array<struct<key:string,value:binary>>"
            if field.name == "headers"
            else " or ".join(c.typeName() for c in _TAKES[field.name])
        )
        raise ConfigError(
            f"column {field.name} is {field.dataType.simpleString()}, and a Kafka record takes {takes}. Nothing was"
            " written. Cast it.",
            tag="COLUMN_TYPE",
        )


def _plain(headers: t.DataType) -> str:
    return headers.simpleString()
