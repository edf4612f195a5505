"""Columns of a database's table from the columns of records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from semel.connect.connectors.sinks.refused_records import RecordRefused
from semel.serdes.columns import whole
from semel.serdes.schemas.arrow import filled

__all__ = ["Column", "Columns", "columns_of"]

_KAFKA = ("__connect_topic", "__connect_partition", "__connect_offset")
_TYPES: Sequence[tuple[Callable[[Any], bool], sa.types.TypeEngine[Any]]] = (
    (pa.types.is_boolean, sa.Boolean()),
    (pa.types.is_int8, sa.SmallInteger()),
    (pa.types.is_int16, sa.SmallInteger()),
    (pa.types.is_int32, sa.Integer()),
    (pa.types.is_int64, sa.BigInteger()),
    (pa.types.is_float32, sa.REAL()),
    (pa.types.is_float64, sa.Float(53)),
    (pa.types.is_string, sa.Text()),
    (pa.types.is_large_string, sa.Text()),
    (pa.types.is_binary, sa.LargeBinary()),
    (pa.types.is_large_binary, sa.LargeBinary()),
    (pa.types.is_decimal, sa.Numeric()),
    (pa.types.is_date, sa.Date()),
    (pa.types.is_time, sa.Time()),
    (pa.types.is_timestamp, sa.DateTime()),
)


class Column(NamedTuple):
    """One column of the table: its name, its type, whether it may be null, and its values."""

    name: str
    kind: sa.types.TypeEngine[Any]
    nullable: bool
    values: Any


class Columns(NamedTuple):
    """The columns of the primary key, and the others."""

    keys: Sequence[Column]
    others: Sequence[Column]


def columns_of(table: pa.Table, config: Mapping[str, Any], *, deleted: bool) -> Columns:
    """Return the columns of neighbours with one schema; of the key alone if the rows are to be ``deleted``.

    Raise :class:`RecordRefused` for records that have no columns, as the JDBC sink does.
    """
    mode, wanted, allowed = config["pk.mode"].lower(), list(config["pk.fields"]), set(config["fields.whitelist"])
    value = {} if deleted else _fields(table, "value")
    if value is None:
        raise _bad("value", "a struct with a schema", "Use a converter that reads schemas.")
    if mode == "kafka":
        names = wanted or list(_KAFKA)
        kinds: tuple[sa.types.TypeEngine[Any], ...] = (sa.Text(), sa.Integer(), sa.BigInteger())
        parts = ("topic", "partition", "offset")
        columns = (whole(table[part]) for part in parts)
        keys = [Column(name, kind, False, one) for name, kind, one in zip(names, kinds, columns, strict=True)]
    elif mode == "record_key":
        keys = _of_key(table, wanted)
    elif mode == "record_value":
        keys = _picked(value, wanted or list(value), "value")
    else:
        keys = []
    for one in keys:
        if one.values.null_count:
            row = int(pc.index(one.values.is_null(), True).as_py())
            part = "key" if mode == "record_key" else "value"
            raise _bad(part, "a primary key that is not null", "Correct pk.fields.", row)
    names = [one.name for one in keys]
    others = [one for name, one in value.items() if name not in names and (not allowed or name in allowed)]
    return Columns([one._replace(nullable=False) for one in keys], others)


def _of_key(table: pa.Table, wanted: Sequence[str]) -> list[Column]:
    fields = _fields(table, "key")
    if fields is not None:
        return _picked(fields, wanted or list(fields), "key")
    field = table.schema.field("key")
    if len(wanted) != 1 or not _is_plain(field.type):
        raise _bad("key", "a struct, or a primitive with one name in pk.fields", "Correct pk.fields or key.converter.")
    return [_column(wanted[0], field, table["key"])]


def _picked(fields: Mapping[str, Column], wanted: Sequence[str], part: str) -> list[Column]:
    missing = [name for name in wanted if name not in fields]
    if missing:
        raise _bad(part, f"the field {missing[0]} of pk.fields", "Correct pk.fields.")
    return [fields[name] for name in wanted]


def _fields(table: pa.Table, part: str) -> dict[str, Column] | None:
    """Return the fields of a struct as columns, or None if it is none."""
    field = table.schema.field(part)
    if not pa.types.is_struct(field.type):
        return None
    children = whole(table[part]).flatten()
    return {one.name: _column(one.name, one, child) for one, child in zip(field.type, children, strict=True)}


def _column(name: str, field: pa.Field, values: Any) -> Column:
    kind = next((kind for matches, kind in _TYPES if matches(field.type)), None)
    if kind is None:
        raise RecordRefused(
            f"field {name} has the type {field.type!s:.100}, which has no column",
            "Remove the field by a transformation, or name the others in fields.whitelist.",
        )
    return Column(name, kind, field.nullable, filled(whole(values), field))


def _is_plain(kind: Any) -> bool:
    return any(matches(kind) for matches, _ in _TYPES)


def _bad(part: str, needed: str, remedy: str, row: int = 0) -> RecordRefused:
    return RecordRefused(f"SqlSink needs {needed} in the {part} of each record", remedy, row)
