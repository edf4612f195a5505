"""One value of Kafka Connect as fastavro takes it: numbers, texts, bytes, lists and dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from semel.serdes.avro.defaults import has_text_keys, physical
from semel.serdes.avro.names import field_name, full_name
from semel.serdes.avro.options import AvroOptions
from semel.serdes.avro.schema import ENUM, FIXED_SIZE, is_enum, is_union
from semel.serdes.schemas.schema import DECIMAL, Schema, Type
from semel.serdes.schemas.struct import Struct
from semel.serdes.text import encoded
from semel.serdes.unfit import Mismatch, WrongType

__all__ = ["datum_writer", "loose_datum"]

Write = Callable[[Any], Any]
_INT = (-(2**63), 2**63)


@lru_cache(1024)
def datum_writer(schema: Schema, options: AvroOptions) -> Write:
    """Return the function that makes of a checked value what fastavro takes.

    It raises :class:`Mismatch` for a null that may not be, and :class:`~semel.serdes.unfit.NotText` for half a
    character.
    """
    write = _writer(schema, options)

    def written(value: Any) -> Any:
        if value is None:
            value = None if options.null_stays and schema.optional else schema.default
            if value is None:
                if not schema.optional:
                    raise Mismatch("is null, and its schema is not optional")
                return None
        return write(value)

    return written


def _writer(schema: Schema, options: AvroOptions) -> Write:
    match schema.type:
        case Type.STRUCT:
            return _union(schema, options) if is_union(schema) else _struct(schema, options)
        case Type.ARRAY if schema.values is not None:
            items = datum_writer(schema.values, options)
            return lambda value: [items(one) for one in value]
        case Type.MAP if schema.keys is not None and schema.values is not None:
            keys, values = datum_writer(schema.keys, options), datum_writer(schema.values, options)
            if has_text_keys(schema, options):
                return lambda value: {keys(key): values(one) for key, one in value.items()}
            return lambda value: [{"key": keys(key), "value": values(one)} for key, one in value.items()]
        case Type.STRING:
            return _symbol(schema) if is_enum(schema, options) else _text
        case Type.BYTES if FIXED_SIZE in (schema.parameters or {}):
            return _fixed(schema)
    return (lambda value: value) if schema.logical is None else (lambda value: physical(schema, value))


def _struct(schema: Schema, options: AvroOptions) -> Write:
    parts = [(field_name(one.name, options), datum_writer(one.schema, options)) for one in schema.fields]

    def write(value: Struct) -> dict[str, Any]:
        return {name: part(cell) for (name, part), cell in zip(parts, value.cells, strict=True)}

    return write


def _union(schema: Schema, options: AvroOptions) -> Write:
    """Return what writes the one field that has a value, with the name of its type."""
    parts = [(_branch(one.schema, options), datum_writer(one.schema, options)) for one in schema.fields]

    def write(value: Struct) -> Any:
        for (name, part), cell in zip(parts, value.cells, strict=True):
            if cell is not None:
                return name, part(cell)
        if schema.optional:
            return None
        raise Mismatch("is a choice of which no field has a value")

    return write


def _branch(schema: Schema, options: AvroOptions) -> str:
    """Return the name of a type in a choice."""
    if is_enum(schema, options):
        return (schema.parameters or {})[ENUM]
    if schema.type is Type.STRUCT or FIXED_SIZE in (schema.parameters or {}):
        if schema.name is None:
            raise Mismatch("has a choice with a struct that has no name")
        return ".".join(filter(None, full_name(schema.name, options)))
    plain = {Type.INT64: "long", Type.FLOAT32: "float", Type.FLOAT64: "double"}
    return plain.get(schema.type, "int" if schema.type.startswith("int") else str(schema.type))


def _text(value: str) -> str:
    if not value.isascii():
        encoded(value)
    return value


def _symbol(schema: Schema) -> Write:
    symbols = {one.removeprefix(f"{ENUM}.") for one in schema.parameters or {} if one.startswith(f"{ENUM}.")}

    def write(value: str) -> str:
        if value not in symbols:
            raise Mismatch(f"is {value!r:.60}, which is no symbol of its enumeration")
        return value

    return write


def _fixed(schema: Schema) -> Write:
    size = int((schema.parameters or {})[FIXED_SIZE])

    def write(value: Any) -> bytes:
        made: bytes = physical(schema, value)
        if schema.logical == DECIMAL and len(made) < size:
            made = (b"\xff" if made[0] & 0x80 else b"\0") * (size - len(made)) + made
        if len(made) != size:
            raise Mismatch(f"has {len(made)} bytes, and its schema has {size}")
        return made

    return write


def loose_datum(value: Any) -> Mapping[str, Any]:
    """Return a value without a schema as the record that holds anything."""
    if value is None:
        return {}
    find = _LOOSE.get(type(value)) or next((one for kind, one in _LOOSE.items() if isinstance(value, kind)), None)
    if find is None:
        raise WrongType(type(value).__name__)
    return find(value)


def _whole(value: int) -> Mapping[str, Any]:
    if not _INT[0] <= value < _INT[1]:
        raise Mismatch(f"is a whole number of {value.bit_length()} bits, and Avro has 64")
    return {"long": int(value)}


def _items(value: Iterable[Any]) -> Mapping[str, Any]:
    return {"array": [loose_datum(one) for one in value]}


def _pairs(value: Mapping[Any, Any]) -> Mapping[str, Any]:
    return {"map": [{"key": loose_datum(key), "value": loose_datum(one)} for key, one in value.items()]}


#: A subclass stands before its base.
_LOOSE: Mapping[type, Callable[[Any], Mapping[str, Any]]] = {
    bool: lambda value: {"boolean": value},
    int: _whole,
    float: lambda value: {"double": value},
    str: lambda value: {"string": _text(value)},
    bytes: lambda value: {"bytes": value},
    bytearray: lambda value: {"bytes": bytes(value)},
    memoryview: lambda value: {"bytes": bytes(value)},
    list: _items,
    tuple: _items,
    dict: _pairs,
    Mapping: _pairs,
}
