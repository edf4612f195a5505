"""Schemas: Kafka Connect's types, with their name, version, default, documentation and parameters.

::

    order = Schema.struct(
        {"id": Schema.int64(), "price": Schema.decimal(2), "note": Schema.string(optional=True)}, name="shop.Order"
    )

A schema cannot be changed. Two that say the same are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, TypedDict, Unpack

from semel.errors import ConfigError
from semel.serdes.unfit import Mismatch

__all__ = ["DATE", "DECIMAL", "TIME", "TIMESTAMP", "Field", "Schema", "Type"]

_DATA = "org.apache.kafka.connect.data."
#: Names of the logical types.
DECIMAL, DATE, TIME, TIMESTAMP = (f"{_DATA}{kind}" for kind in ("Decimal", "Date", "Time", "Timestamp"))
_SCALE = "scale"


class Type(StrEnum):
    """Types of values, by Kafka Connect's names."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


#: The types that a schema with one of these names has.
_LOGICAL = {DECIMAL: Type.BYTES, DATE: Type.INT32, TIME: Type.INT32, TIMESTAMP: Type.INT64}


class Details(TypedDict, total=False):
    """What a schema may say beside its type."""

    optional: bool
    default: Any
    name: str | None
    version: int | None
    doc: str | None
    parameters: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    schema: Schema


@dataclass(frozen=True)
class Schema:
    """A type, and what is said of it. Make one by the method that its type names."""

    type: Type
    optional: bool = False
    default: Any = None
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    fields: tuple[Field, ...] = ()
    #: Of a map.
    keys: Schema | None = None
    #: Of a map, and of an array.
    values: Schema | None = None

    def __post_init__(self) -> None:
        _check(self)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        parts = (self.keys, self.values, self.fields)
        return hash((self.type, self.optional, self.name, self.version, self.doc, parts))

    @cached_property
    def places(self) -> dict[str, int]:
        """The positions of the fields, by their names."""
        return {field.name: place for place, field in enumerate(self.fields)}

    @cached_property
    def logical(self) -> str | None:
        """The name of the logical type, or None."""
        return self.name if self.name in _LOGICAL else None

    @cached_property
    def scale(self) -> int:
        """The digits of a decimal after its point."""
        return int((self.parameters or {})[_SCALE])

    def field(self, name: str) -> Field | None:
        """Return a field, or None."""
        place = self.places.get(name)
        return None if place is None else self.fields[place]

    def but(self, **details: Unpack[Details]) -> Schema:
        """Return this schema with other details."""
        return replace(self, **details)

    @classmethod
    def int8(cls, **details: Unpack[Details]) -> Schema:
        """Make a schema of whole numbers of 8 bits."""
        return cls(Type.INT8, **details)

    @classmethod
    def int16(cls, **details: Unpack[Details]) -> Schema:
        """Make a schema of whole numbers of 16 bits."""
        return cls(Type.INT16, **details)

    @classmethod
    def int32(cls, **details: Unpack[Details]) -> Schema:
        """Make a schema of whole numbers of 32 bits."""
        return cls(Type.INT32, **details)

    @classmethod
    def int64(cls, **details: Unpack[Details]) -> Schema:
        """Make a schema of whole numbers of 64 bits."""
        return cls(Type.INT64, **details)

    @classmethod
    def float32(cls, **details: Unpack[Details]) -> Schema:
        """Make a schema of floating numbers of 32 bits."""
        return cls(Type.FLOAT32, **details)

    @classmethod
    def float64(cls, **details: Unpack[Details]) -> Schema:
        """Make a schema of Python's floating numbers."""
        return cls(Type.FLOAT64, **details)

    @classmethod
    def boolean(cls, **details: Unpack[Details]) -> Schema:
        """Make a schema of booleans."""
        return cls(Type.BOOLEAN, **details)

    @classmethod
    def string(cls, **details: Unpack[Details]) -> Schema:
        """Make a schema of text."""
        return cls(Type.STRING, **details)

    @classmethod
    def bytes(cls, **details: Unpack[Details]) -> Schema:
        """Make a schema of bytes."""
        return cls(Type.BYTES, **details)

    @classmethod
    def array(cls, values: Schema, **details: Unpack[Details]) -> Schema:
        """Make a schema of lists."""
        return cls(Type.ARRAY, values=values, **details)

    @classmethod
    def map(cls, keys: Schema, values: Schema, **details: Unpack[Details]) -> Schema:
        """Make a schema of dictionaries whose keys, and whose values, are of one type."""
        return cls(Type.MAP, keys=keys, values=values, **details)

    @classmethod
    def struct(cls, fields: Mapping[str, Schema], **details: Unpack[Details]) -> Schema:
        """Make a schema of structures with these fields, in this order."""
        return cls(Type.STRUCT, fields=tuple(Field(name, one) for name, one in fields.items()), **details)

    @classmethod
    def decimal(cls, scale: int, **details: Unpack[Details]) -> Schema:
        """Make a schema of decimals with ``scale`` digits after the point."""
        details["parameters"] = {**(details.get("parameters") or {}), _SCALE: str(scale)}
        return cls(Type.BYTES, **_named(DECIMAL, details))

    @classmethod
    def date(cls, **details: Unpack[Details]) -> Schema:
        """Make a schema of days."""
        return cls(Type.INT32, **_named(DATE, details))

    @classmethod
    def time(cls, **details: Unpack[Details]) -> Schema:
        """Make a schema of times of a day, of which milliseconds are written."""
        return cls(Type.INT32, **_named(TIME, details))

    @classmethod
    def timestamp(cls, **details: Unpack[Details]) -> Schema:
        """Make a schema of moments, of which milliseconds are written. One without a zone is in UTC."""
        return cls(Type.INT64, **_named(TIMESTAMP, details))


def _named(name: str, details: Details) -> Details:
    return {"version": 1, **details, "name": name}


def _check(schema: Schema) -> None:
    """Raise :class:`ConfigError` for a schema that contradicts itself."""
    why = _problem(schema)
    if why is None and schema.default is not None:
        from semel.serdes.schemas.struct import checked

        try:
            object.__setattr__(schema, "default", checked(schema, schema.default))
        except Mismatch as error:
            why = f"its default {error.what}"
    if why is not None:
        raise ConfigError(
            f"a schema of type {schema.type} cannot be used: {why:.200}. Nothing was read or written. Correct the"
            " schema in the connector.",
            tag="SCHEMA",
        )


def _problem(schema: Schema) -> str | None:
    kind = schema.type
    if kind is Type.STRUCT and not all(
        isinstance(one.schema, Schema) and type(one.name) is str for one in schema.fields
    ):
        return "its fields must be schemas, under names that are text"
    if len({one.name for one in schema.fields}) < len(schema.fields):
        return "two of its fields have one name"
    if kind is Type.MAP and not (isinstance(schema.keys, Schema) and isinstance(schema.values, Schema)):
        return "it needs a schema of its keys, and one of its values"
    if kind is Type.ARRAY and not isinstance(schema.values, Schema):
        return "it needs a schema of its items"
    if not all(type(one) is str for pair in (schema.parameters or {}).items() for one in pair):
        return "its parameters must be text, under names that are text"
    if _LOGICAL.get(schema.name or "", kind) is not kind:
        return f"the name {schema.name} belongs to {_LOGICAL[schema.name or '']}"
    if schema.name == DECIMAL:
        scale = (schema.parameters or {}).get(_SCALE, "")
        return None if scale.removeprefix("-").isdecimal() else "a decimal needs the parameter scale, a whole number"
    return None
