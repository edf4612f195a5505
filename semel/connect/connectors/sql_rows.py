"""Rows of a database as a table of Arrow: the types are those of the database's columns.

PostgreSQL gives times, and all that Arrow has no type for, as text: what ``::text`` shows of JSON, a UUID, an interval
or a decimal. Arrow reads the times. Where a database does not say the types of all columns, each row is a value without
a schema, as it came.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semel.connect.columns import UNREADABLE, column_of
from semel.errors import ConfigError

__all__ = ["Found", "kinds_of", "prepare", "table_of", "values_of"]

#: By PostgreSQL's number of a type.
_KINDS: Mapping[int, Any] = {
    16: pa.bool_(),
    17: pa.binary(),
    20: pa.int64(),
    21: pa.int16(),
    23: pa.int32(),
    26: pa.int64(),
    700: pa.float32(),
    701: pa.float64(),
    1082: pa.date32(),
    1083: pa.time64("us"),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", "UTC"),
}
#: The same of arrays.
_LISTS: Mapping[int, int] = {
    1000: 16,
    1001: 17,
    1016: 20,
    1005: 21,
    1007: 23,
    1028: 26,
    1021: 700,
    1022: 701,
    1182: 1082,
    1183: 1083,
    1115: 1114,
    1185: 1184,
}
_NOT_TEXT = frozenset({16, 17, 20, 21, 23, 26, 700, 701})
#: Values that Arrow would take, and that are others.
_OTHERS: Mapping[Any, type] = {pa.string(): bytes, pa.binary(): str}
_PLAIN = (str, bytes, bool, int, float, datetime, date, time)


@dataclass(frozen=True, slots=True)
class Found:
    """Rows, with the names of their columns, and their types where they are known."""

    names: Sequence[str]
    kinds: Sequence[Any]
    rows: Sequence[Sequence[Any]]


def prepare(connection: Any) -> None:
    """Have psycopg give as text whatever Python would give in another form than the database."""
    from psycopg.types.string import TextLoader

    for known in connection.adapters.types:
        if known.oid not in _NOT_TEXT:
            connection.adapters.register_loader(known.oid, TextLoader)


def kinds_of(description: Sequence[Any], dialect: str, declared: Mapping[str, Any]) -> list[Any]:
    """Return the types of the columns of a result. None is where they are not known."""
    if dialect != "postgresql":
        return [declared.get(column[0]) for column in description]
    made = []
    for column in description:
        item = _LISTS.get(column[1])
        made.append(_KINDS.get(column[1], pa.string()) if item is None else pa.list_(_KINDS[item]))
    return made


def values_of(found: Found) -> list[dict[str, Any]] | None:
    """Return each row as it is, if the database does not say the types of all columns; else None."""
    if None not in found.kinds:
        return None
    return [dict(zip(found.names, map(_alone, row, found.kinds), strict=True)) for row in found.rows]


def table_of(found: Found, title: str, row_name: Callable[[Sequence[Any]], str]) -> pa.Table:
    """Return the rows as structs in a column ``value``.

    A row with a value that no type here can hold says so in the column :data:`UNREADABLE`.
    """
    columns: list[Any] = []
    complaints: dict[int, str] = {}
    for name, kind, values in zip(found.names, found.kinds, zip(*found.rows, strict=True), strict=True):
        column, odd = _column(values, kind, name)
        columns.append(column)
        for index in odd:
            shown = f"{row_name(found.rows[index])} of {title} holds {values[index]!s:.60} in its column {name:.60},"
            complaints.setdefault(index, f"the row with {shown} which cannot be written as {kind}.")
    table = pa.table({"value": pa.StructArray.from_arrays(columns, list(found.names))})
    if not complaints:
        return table
    said = [complaints.get(index) for index in range(len(found.rows))]
    return table.append_column(UNREADABLE, pa.array(said, pa.string()))


def _column(values: Sequence[Any], kind: Any, name: str) -> tuple[Any, list[int]]:
    """Return a column, and the indexes of values that it cannot hold."""
    try:
        return _cast(values, kind), []
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        pass
    if pa.types.is_list(kind) or any(isinstance(value, list) for value in values):
        return column_of(values, name), []  # of several dimensions
    if not _timed(kind):  # SQLite keeps any value in any column
        return _untyped([_plain(value) for value in values], name), []
    odd = {index for index, value in enumerate(values) if not _fits(value, kind)}
    return _cast([None if index in odd else value for index, value in enumerate(values)], kind), sorted(odd)


def _cast(values: Sequence[Any], kind: Any) -> Any:
    if pa.types.is_list(kind) and _timed(kind.value_type):
        return pa.array(values, pa.list_(pa.string())).cast(kind)
    if not _timed(kind):
        if pa.types.is_integer(kind) and any(isinstance(value, float) for value in values):
            raise pa.ArrowInvalid("Arrow would cut the fraction off")
        if any(isinstance(value, _OTHERS.get(kind, ())) for value in values):
            raise pa.ArrowInvalid("Arrow would take text for bytes, or the reverse")
        return pa.array(values, kind)
    text = pa.array(values, pa.string())
    if pa.types.is_time(kind):  # Arrow reads times of a day in timestamps alone
        return pc.binary_join_element_wise("1970-01-01", text, " ").cast(pa.timestamp("us")).cast(kind)
    return text.cast(kind)


def _timed(kind: Any) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind))


def _fits(value: Any, kind: Any) -> bool:
    try:
        _cast([value], kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return False
    return True


def _untyped(values: Sequence[Any], name: str) -> Any:
    try:
        return column_of(values, name)
    except ConfigError:
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def _alone(value: Any, kind: Any) -> Any:
    """Return a value without a schema. In a DECIMAL column a whole number that a float holds is a float."""
    if kind == pa.float64() and type(value) is int and abs(value) <= 2**53:
        return float(value)
    return _plain(value)


def _plain(value: Any) -> Any:
    """Return a value, or its text where Arrow has no type for it or JSON is meant."""
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return bytes(value) if isinstance(value, bytearray | memoryview) else str(value)
