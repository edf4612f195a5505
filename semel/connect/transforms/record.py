"""One record, as transformations see it: its key and its value, each with its schema or without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from semel.serdes.schemas import Field, Schema, Struct, Type
from semel.serdes.schemas.arrow import arrow_field, schema_of
from semel.serdes.schemas.schema import TIMESTAMP
from semel.serdes.schemas.struct import checked
from semel.serdes.unfit import Mismatch

__all__ = ["Data", "Record", "mask_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: What is there in the place of a masked value. A subclass stands before its base.
_MASKS: Mapping[type, Any] = {
    str: "",
    bool: False,
    int: 0,
    float: 0.0,
    Decimal: Decimal(0),
    datetime: _EPOCH,
    date: _EPOCH.date(),
    time: time(),
    list: [],
    tuple: [],
    dict: {},
    Mapping: {},
}
#: What reads a replacement.
_READ: Mapping[type, Callable[[str], Any]] = {str: str, int: int, float: float, Decimal: Decimal}


def mask_of(kind: type | None, replacement: str | None) -> Any:
    """Return what is in the place of values of a type. Raise an error for a type, or a replacement, that has none."""
    if kind is None:
        raise LookupError("values of this type are not masked")
    return _MASKS[kind] if replacement is None else _READ[kind](replacement)


class Data(NamedTuple):
    """A value, checked by its schema, or as it came if it has none."""

    schema: Schema | None
    value: Any

    def __str__(self) -> str:
        return type(self.value).__name__ if self.schema is None else self.schema.type

    @property
    def is_null(self) -> bool:
        """True if there is no value."""
        return self.value is None

    @property
    def is_tombstone(self) -> bool:
        """True if there is no value, and no schema."""
        return self.value is None and self.schema is None

    @property
    def is_optional(self) -> bool:
        """True if its schema says that it may be null."""
        return self.schema is not None and self.schema.optional

    @property
    def is_map(self) -> bool:
        """True if its schema says that it is a map."""
        return self.schema is not None and self.schema.type is Type.MAP

    def parts(self) -> dict[str, Data] | None:
        """Return the fields of a struct, with their defaults in the place of nulls, or the items of a dictionary."""
        if self.schema is None:
            if not isinstance(self.value, Mapping):
                return None
            return {name: Data(None, one) for name, one in self.value.items()}
        if self.schema.type is not Type.STRUCT:
            return None
        return {
            one.name: Data(one.schema, None if self.value is None else self.value[one.name])
            for one in self.schema.fields
        }

    def null(self) -> Data | None:
        """Return a null without a schema, for a dictionary."""
        return Data(None, None) if self.schema is None else None

    def constant(self, schema: Schema, value: Any) -> Data | None:
        """Return a new field."""
        if self.schema is None:
            return None if value is None else Data(None, value)
        if value is not None and schema.logical == TIMESTAMP:
            try:
                value = _EPOCH + timedelta(milliseconds=value)
            except OverflowError:
                raise Mismatch(f"is {value}, which is no time up to the year 9999") from None
        return Data(schema, value)

    def with_parts(self, parts: Mapping[str, Data]) -> Data:
        """Return the structure with these fields."""
        return self._built(parts, self.schema)

    def with_same_parts(self, parts: Mapping[str, Data]) -> Data:
        """Return the structure with these fields, optional as it was."""
        made = self._built(parts, self.schema)
        if self.schema is None or made.schema is None:
            return made
        schema = self.schema if made.schema.fields == self.schema.fields else _optional(made.schema, self.schema)
        return Data(schema, made.value and Struct.of_cells(schema, made.value.cells))

    def new(self, parts: Mapping[str, Data]) -> Data:
        """Return a structure of these fields."""
        return self._built(parts, None)

    def _built(self, parts: Mapping[str, Data], like: Schema | None) -> Data:
        if self.schema is None:
            return Data(None, {name: one.value for name, one in parts.items()})
        fields = tuple(_field(name, one.schema) for name, one in parts.items() if one.schema is not None)
        schema = _rebuilt(fields, like)
        if self.value is None:
            return Data(schema, None)
        return Data(schema, Struct.of_cells(schema, tuple(one.value for one in parts.values())))

    def hoisted(self, name: str) -> Data:
        """Return a structure with this as its one field."""
        if self.schema is None:
            return Data(None, {name: self.value})
        schema = _rebuilt((_field(name, self.schema),), None)
        return Data(schema, Struct.of_cells(schema, (self.value,)))

    def masked(self, replacement: str | None) -> Data | None:
        """Return zero, empty text, or the replacement."""
        if self.value is None:
            return self
        kind = next((one for one in _MASKS if isinstance(self.value, one)), None)
        try:
            mask = mask_of(kind, replacement)
            return Data(self.schema, mask if self.schema is None else checked(self.schema, mask))
        except (ArithmeticError, LookupError, ValueError):
            return None

    def optional(self) -> Data:
        """Return the same, and let it be null."""
        return self if self.schema is None else Data(self.schema.but(optional=True), self.value)

    def renamed(self, new: Callable[[Schema], Schema]) -> Data | None:
        """Return the same value with another schema."""
        if self.schema is None:
            return None
        schema = new(self.schema)
        return Data(schema, Struct.of_cells(schema, self.value.cells) if isinstance(self.value, Struct) else self.value)

    def mapped(
        self, new: Callable[[Schema], Schema], convert: Callable[[Schema | None, Any], Any], quick: Any = None
    ) -> Data:
        """Return another value with another schema."""
        made = None if self.value is None else convert(self.schema, self.value)
        return Data(None if self.schema is None else new(self.schema), made)

    def retyped(self, convert: Callable[[Any], Any], kind: Any) -> Data:
        """Return the converted value; what converts it reads columns."""
        schema = None
        if self.schema is not None:
            schema = schema_of(pa.field("", kind, nullable=self.schema.optional))
        if self.value is None:
            return Data(schema, None)
        try:
            column = pa.array([self.value], None if self.schema is None else arrow_field("", self.schema).type)
            return Data(schema, convert(column)[0].as_py())
        except (TypeError, ValueError, OverflowError, pa.ArrowException):
            raise Mismatch(f"of type {type(self.value).__name__} cannot be read as a time") from None


@dataclass(slots=True)
class Record:
    """A record on its way to its topic."""

    topic: str
    key: Data
    value: Data
    partition: int | None
    timestamp: int | None
    headers: Sequence[tuple[str, bytes | None]]
    #: Where a sink's record was read. A source's record has none yet.
    offset: int | None = None


@lru_cache(4096)
def _field(name: str, schema: Schema) -> Field:
    return Field(name, schema)


@lru_cache(1024)
def _rebuilt(fields: tuple[Field, ...], like: Schema | None) -> Schema:
    """Return the schema of a struct, with the name, version, documentation and parameters of another."""
    if like is None:
        return Schema(Type.STRUCT, fields=fields)
    return Schema(
        Type.STRUCT,
        name=like.name,
        version=like.version,
        doc=like.doc,
        parameters=like.parameters,
        fields=fields,
    )


@lru_cache(1024)
def _optional(schema: Schema, like: Schema) -> Schema:
    return schema.but(optional=like.optional)
