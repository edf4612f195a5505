"""Rows of Delta Lake from the values of records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from semel.connect.connectors.sinks.file_formats import fields_of
from semel.errors import ConfigError

__all__ = ["delta_rows", "fitted_fields"]

_MOMENT = pa.timestamp("us", "UTC")


def delta_rows(column: Any, field: pa.Field) -> pa.Table:
    """Return the fields of structs as columns, of Delta's types. Raise :class:`ConfigError` for what Delta lacks.

    Each column may be null. A moment of Kafka Connect is a timestamp in UTC.
    """
    table = fields_of(column, field)
    return table.cast(pa.schema([pa.field(one.name, _type(one.type, one.name)) for one in table.schema]))


def fitted_fields(schema: pa.Schema, there: pa.Schema) -> tuple[list[pa.Field], list[str]]:
    """Return the fields of rows with the types of a table's columns, and the names of those that the table lacks.

    A struct keeps the fields that the table lacks: Arrow's cast would drop them without a word. Raise ``ArrowInvalid``
    for a column that would take another value than the record has.
    """
    more = [one.name for one in schema if one.name not in there.names]
    fields = [
        one
        if one.name not in there.names
        else pa.field(one.name, _fitted(one.type, there.field(one.name).type, one.name, more))
        for one in schema
    ]
    return fields, more


def _fitted(kind: Any, there: Any, name: str, more: list[str]) -> Any:
    if pa.types.is_struct(kind) and pa.types.is_struct(there):
        names, known = ({one.name for one in of} for of in (kind, there))
        new = [one for one in kind if one.name not in known]
        more += [f"{name}.{one.name}" for one in new]
        fields = [
            pa.field(
                one.name,
                _fitted(kind.field(one.name).type, one.type, f"{name}.{one.name}", more)
                if one.name in names
                else one.type,
            )
            for one in there
        ]
        return pa.struct([*fields, *new])
    if pa.types.is_list(kind) and pa.types.is_list(there):
        return pa.list_(pa.field("element", _fitted(kind.value_type, there.value_type, name, more)))
    if pa.types.is_map(kind) and pa.types.is_map(there):
        return pa.map_(there.key_type, _fitted(kind.item_type, there.item_type, name, more))
    changes = (pa.types.is_timestamp(kind) and pa.types.is_date(there)) or (
        pa.types.is_boolean(there) and not pa.types.is_boolean(kind)
    )
    if changes:  # Arrow's cast takes these for safe
        raise pa.ArrowInvalid(f"field {name} is {kind}, and its column is {there}")
    return there


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
