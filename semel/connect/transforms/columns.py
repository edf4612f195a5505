"""The key or the value of a table's records: a column with its field of Arrow, which has its schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from semel.connect.transforms.record import mask_of
from semel.serdes.columns import is_list, whole
from semel.serdes.schemas import Schema
from semel.serdes.schemas.arrow import array_of, arrow_field, filled, replaced, schema_of, values_of

__all__ = ["Column", "TableRow", "column_of", "put"]

#: Python's types of values that can be masked.
_KINDS: Mapping[Callable[[Any], bool], type] = {
    pa.types.is_string: str,
    pa.types.is_large_string: str,
    pa.types.is_boolean: bool,
    pa.types.is_integer: int,
    pa.types.is_floating: float,
    pa.types.is_decimal: Decimal,
    pa.types.is_timestamp: datetime,
    pa.types.is_date: date,
    pa.types.is_time: time,
    is_list: list,
    pa.types.is_map: dict,
}


class TableRow:
    """The columns beside the key and the value."""

    def __init__(self, topic: str, table: pa.Table) -> None:
        self.topic, self._table = topic, table

    @property
    def partition(self) -> Any:
        """The partitions, or None."""
        return self._column("partition")

    @property
    def timestamp(self) -> Any:
        """The timestamps, or None."""
        return self._column("timestamp")

    @property
    def offset(self) -> Any:
        """The offsets, or None."""
        return self._column("offset")

    def _column(self, name: str) -> Any:
        return whole(self._table.column(name)) if name in self._table.schema.names else None


class Column(NamedTuple):
    """Values, and the field of Arrow that they belong to."""

    values: Any
    field: pa.Field

    def __str__(self) -> str:
        return str(self.values.type)

    @property
    def is_null(self) -> bool:
        """True if all values are null."""
        return bool(self.values.null_count == len(self.values))

    @property
    def is_tombstone(self) -> bool:
        """True if all values are null: in a table, these are tombstones."""
        return self.is_null

    @property
    def is_optional(self) -> bool:
        """True if its field says that it may be null."""
        return bool(self.field.nullable)

    @property
    def is_map(self) -> bool:
        """True if it has maps."""
        return bool(pa.types.is_map(self.values.type))

    def parts(self) -> dict[str, Column] | None:
        """Return the fields of a struct, with their defaults in the place of nulls."""
        kind = self.values.type
        if not pa.types.is_struct(kind):
            return None
        return {one.name: Column(filled(part, one), one) for one, part in zip(kind, self.values.flatten(), strict=True)}

    def null(self) -> None:
        """Each field has a type."""

    def constant(self, schema: Schema, value: Any) -> Column:
        """Return a field with this value, or with the values of a column."""
        field = arrow_field("", schema)
        if value is None:
            return Column(pa.nulls(len(self.values), field.type), field)
        if isinstance(value, pa.Array):
            return Column(value.cast(field.type), field)
        return Column(pa.repeat(pa.scalar(value, field.type), len(self.values)), field)

    def with_parts(self, parts: Mapping[str, Column]) -> Column:
        """Return a struct with these fields."""
        metadata = {name: text for name, text in (self.field.metadata or {}).items() if name != b"connect.default"}
        return self._struct(parts, metadata)

    def with_same_parts(self, parts: Mapping[str, Column]) -> Column:
        """Return the struct with these fields, nullable as it was."""
        made = self.with_parts(parts)
        return made._replace(field=made.field.with_nullable(self.field.nullable))

    def new(self, parts: Mapping[str, Column]) -> Column:
        """Return a struct of these fields, null where this is."""
        return self._struct(parts, {})

    def _struct(self, parts: Mapping[str, Column], metadata: Mapping[bytes, bytes]) -> Column:
        fields = [one.field.with_name(name).with_type(one.values.type) for name, one in parts.items()]
        arrays = [one.values for one in parts.values()]
        made = pa.StructArray.from_arrays(arrays, fields=fields, mask=self.values.is_null())
        return Column(made, pa.field("", made.type, nullable=False, metadata=metadata or None))

    def hoisted(self, name: str) -> Column:
        """Return a struct with this column alone."""
        field = self.field.with_name(name).with_type(self.values.type)
        made = pa.StructArray.from_arrays([self.values], fields=[field])
        return Column(made, pa.field("", made.type, nullable=False))

    def masked(self, replacement: str | None) -> Column | None:
        """Return zeros, or the replacement, in the place of values."""
        kind = next((one for check, one in _KINDS.items() if check(self.values.type)), None)
        if self.is_null:
            return self
        try:
            mask = pa.scalar(mask_of(kind, replacement), self.values.type)
        except (ArithmeticError, LookupError, ValueError, OverflowError, pa.ArrowException):
            return None
        return self._replace(values=replaced(self.values, self.values.is_valid(), mask))

    def optional(self) -> Column:
        """Return the same, and let it be null."""
        return self._replace(field=self.field.with_nullable(True))

    def renamed(self, new: Callable[[Schema], Schema]) -> Column:
        """Return the same values with another schema."""
        field = arrow_field(self.field.name, new(schema_of(self.field)))
        return self._replace(field=field.with_type(self.values.type))

    def mapped(
        self, new: Callable[[Schema], Schema], convert: Callable[[Schema | None, Any], Any], quick: Any = None
    ) -> Column:
        """Return other values with another schema."""
        schema = schema_of(self.field)
        field = arrow_field(self.field.name, new(schema))
        made = None if quick is None else quick(self.values)
        if made is None:
            values = values_of(self.values, schema)
            made = array_of([None if one is None else convert(schema, one) for one in values], field)
        return Column(made, field)

    def retyped(self, convert: Callable[[Any], Any], kind: Any) -> Column:
        """Return the converted values, with a schema of their type."""
        made = pa.nulls(len(self.values), kind) if self.is_null else convert(self.values)
        return Column(made, pa.field("", made.type, nullable=self.field.nullable))


def column_of(table: pa.Table, name: str) -> Column:
    """Return a column of a table."""
    return Column(whole(table.column(name)), table.schema.field(name))


def put(table: pa.Table, name: str, column: Column) -> pa.Table:
    """Return the table with this column, in the place of its namesake or as the last."""
    field = column.field.with_name(name).with_type(column.values.type)
    if name in table.schema.names:
        return table.set_column(table.schema.get_field_index(name), field, column.values)
    return table.append_column(field, column.values)
