"""Rows of a table of Delta or Iceberg from the values of records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from semel.connect.connectors.sinks.file_formats import fields_of
from semel.connect.connectors.sinks.refused_records import MISFITS, RecordRefused, first_refused

__all__ = ["fitted_rows", "table_rows", "unfit"]

_MOMENT, _TIME = pa.timestamp("us", "UTC"), pa.time64("us")
_REMEDY = "Change the table, or the record by a transformation."


def table_rows(column: Any, field: pa.Field, *, times: bool) -> pa.Table:
    """Return the fields of structs as columns, of the types that both formats have.

    Each column may be null. A moment of Kafka Connect is a timestamp in UTC. Raise :class:`RecordRefused` for the time
    of a day, unless the format has it: ``times``.
    """
    table = fields_of(column, field)
    return table.cast(pa.schema([pa.field(one.name, _type(one.type, one.name, times)) for one in table.schema]))


def _type(kind: Any, name: str, times: bool) -> Any:
    if pa.types.is_timestamp(kind):
        return _MOMENT
    if pa.types.is_time(kind):
        if times:
            return _TIME
        raise RecordRefused(
            f"Delta has no column for the time of a day in field {name:.60}",
            "Make it a text or a number by the transformation Cast.",
        )
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _type(one.type, name, times)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _type(kind.value_type, name, times)))
    if pa.types.is_map(kind):
        return pa.map_(_type(kind.key_type, name, times), _type(kind.item_type, name, times))
    return kind


def fitted_rows(rows: pa.Table, there: pa.Schema) -> tuple[pa.Table, list[str]]:
    """Return rows with the types of a table's columns, and the names of the columns that the table lacks.

    A field that the rows lack is null. Raise :class:`RecordRefused` for a row that does not fit.
    """
    more = [one.name for one in rows.schema if one.name not in there.names]
    try:
        fields = [
            one if one.name not in there.names else _fitted_field(one, there.field(one.name), more)
            for one in rows.schema
        ]
    except pa.ArrowInvalid as error:
        raise unfit(error) from error
    schema = pa.schema(fields)
    try:
        fitted = rows.cast(schema)
    except MISFITS as error:
        row, its_own = first_refused(rows.num_rows, lambda count: rows.slice(0, count).cast(schema), error)
        raise unfit(its_own, row) from error
    for one in there:
        if one.name not in rows.column_names:
            if not one.nullable:
                raise RecordRefused(f"it lacks the field {one.name:.60}, whose column may not be null", _REMEDY)
            fitted = fitted.append_column(pa.field(one.name, one.type), pa.nulls(rows.num_rows, one.type))
    return fitted, more


def unfit(error: Exception, row: int | None = 0) -> RecordRefused:
    """Return the refusal of a row for which a library raised an error."""
    said = " ".join(str(error).split())
    return RecordRefused(f"it does not fit the table: {said:.150}", _REMEDY, row)


def _fitted_field(one: pa.Field, there: pa.Field, more: list[str]) -> pa.Field:
    return pa.field(one.name, _fitted(one.type, there.type, one.name, more), there.nullable)


def _fitted(kind: Any, there: Any, name: str, more: list[str]) -> Any:
    """Return the type of a column of the table, with the fields that it lacks: Arrow's cast would drop them.

    Raise ``ArrowInvalid`` for a column that would take another value than the record has.
    """
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
    if pa.types.is_list(kind) and (pa.types.is_list(there) or pa.types.is_large_list(there)):
        return pa.list_(pa.field("element", _fitted(kind.value_type, there.value_type, name, more)))
    if pa.types.is_map(kind) and pa.types.is_map(there):
        return pa.map_(there.key_type, _fitted(kind.item_type, there.item_type, name, more))
    changes = (pa.types.is_timestamp(kind) and pa.types.is_date(there)) or (
        pa.types.is_boolean(there) and not pa.types.is_boolean(kind)
    )
    if changes:  # Arrow's cast takes these for safe
        raise pa.ArrowInvalid(f"field {name} is {kind}, and its column is {there}")
    return there
