"""The columns of a DataFrame that are written to Kafka: names and types of Spark's own Kafka sink."""

from __future__ import annotations

from difflib import get_close_matches

from pyspark.sql import types as t

from semel.errors import ConfigError
from semel.settings import nearest

__all__ = ["written_columns"]

#: The columns that are written, and their types. Those of the source that are dropped, so that what was read can be
#: written; any other column is refused, since it would silently be lost.
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


def written_columns(schema: t.StructType, topic: str | None, topics: tuple[str, ...] | None) -> list[str]:
    """Return the columns that are written. ``topic`` is where all rows go, ``topics`` what a column may name; with None
    it may name any.

    Raises :class:`ConfigError` before anything is read or written.
    """
    extra = [column.name for column in schema if column.name not in (*_TAKES, *_DROPPED)]
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
    for column in schema:
        if column.name in _TAKES:
            _check_type(column)
    written = [name for name in _TAKES if name in schema.names and not (name == "topic" and topic is not None)]
    if topic is None and "topic" not in written:
        raise ConfigError(
            "there is neither an option topic nor a column topic. Nothing was written. Say where the rows go.",
            tag="TOPIC_MISSING",
        )
    if topic is None and topics is not None and not topics:
        raise ConfigError(
            "rows name their topic in a column, and the option topics is missing. Nothing was written. List all"
            " topics that the column may name"
            ' (topics="a,b"): their partitions are added to the transaction before the first row is seen.',
            tag="TOPICS_MISSING",
        )
    return written


def _check_type(column: t.StructField) -> None:
    fits = isinstance(column.dataType, _TAKES[column.name])
    if column.name == "headers" and fits:
        fits = _plain(column.dataType) == _plain(_HEADERS)
    if not fits:
        takes = (
            "array<struct<key:string,value:binary>>"
            if column.name == "headers"
            else " or ".join(c.typeName() for c in _TAKES[column.name])
        )
        raise ConfigError(
            f"column {column.name} is {column.dataType.simpleString()}, and a Kafka record takes {takes}. Nothing was"
            f" written. {_remedy(column)}",
            tag="COLUMN_TYPE",
        )


def _remedy(column: t.StructField) -> str:
    nested = isinstance(column.dataType, t.StructType | t.ArrayType | t.MapType)
    if nested and column.name in ("key", "value"):
        return f"Make it a text with to_json({column.name}), or bytes with to_avro({column.name})."
    return "Cast it."


def _plain(headers: t.DataType) -> str:
    return headers.simpleString()
