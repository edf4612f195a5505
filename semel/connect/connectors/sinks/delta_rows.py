"""Rows of Delta Lake from the values of records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from semel.connect.connectors.sinks.file_formats import fields_of
from semel.errors import ConfigError

__all__ = ["delta_rows"]

_MOMENT = pa.timestamp("us", "UTC")


def delta_rows(column: Any, field: pa.Field) -> pa.Table:
    """Return the fields of structs as columns, of Delta's types. Raise :class:`ConfigError` for what Delta lacks.

    Each column may be null. A moment of Kafka Connect is a timestamp in UTC.
    """
    table = fields_of(column, field)
    return table.cast(pa.schema([pa.field(one.name, _type(one.type, one.name)) for one in table.schema]))


def _type(kind: Any, name: str) -> Any:
    if pa.types.is_timestamp(kind):
        return _MOMENT
    if pa.types.is_time(kind):
        raise ConfigError(
            f"Delta has no column for the time of a day in field {name:.60}. The record was not put into the target."
            " Make it a text or a number by the transformation Cast.",
            tag="SINK_RECORD",
        )
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _type(one.type, name)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _type(kind.value_type, name)))
    if pa.types.is_map(kind):
        return pa.map_(_type(kind.key_type, name), _type(kind.item_type, name))
    return kind
