"""Structures, and values checked by their schema.

A checked value has one form for each type: ``Struct``, ``dict`` of a map, ``list``, ``int``, ``float``, ``bool``,
``str``, ``bytes``, and Python's decimals, dates and times of the logical types.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Context, Decimal
from typing import Any

from semel.errors import ConfigError
from semel.serdes.schemas.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from semel.serdes.unfit import Mismatch

__all__ = ["Struct", "checked"]

_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_FLOAT = struct.Struct(">f")
#: Enough for every decimal: nothing is rounded.
_EXACT = Context(prec=100_000)


class Struct:
    """A structure of a schema. Its fields are read by their names; a null with a default reads as the default.

    Raises :class:`~semel.errors.ConfigError` for values that do not fit the schema.
    """

    __slots__ = ("cells", "schema")

    def __init__(self, schema: Schema, values: Mapping[str, Any]) -> None:
        try:
            self.schema, self.cells = schema, _cells(schema, values)
        except Mismatch as error:
            raise ConfigError(
                f"a struct cannot be made: it {error.what}. Nothing of this poll is visible. Correct the values, or"
                " the schema in the connector.",
                tag="SCHEMA",
            ) from None

    @classmethod
    def of_cells(cls, schema: Schema, cells: tuple[Any, ...]) -> Struct:
        """Make one of values that are checked, in the order of the fields."""
        made = cls.__new__(cls)
        made.schema, made.cells = schema, cells
        return made

    def __getitem__(self, name: str) -> Any:
        place = self.schema.places[name]
        value = self.cells[place]
        return self.schema.fields[place].schema.default if value is None else value

    def __iter__(self) -> Iterator[str]:
        return iter(self.schema.places)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and (self.schema, self.cells) == (other.schema, other.cells)

    def __hash__(self) -> int:
        return hash(self.schema)

    def __repr__(self) -> str:
        return f"Struct({dict(zip(self.schema.places, self.cells, strict=True))!r})"


def checked(schema: Schema, value: Any) -> Any:
    """Return a value in the form that its schema has. Raise :class:`Mismatch` for one that does not fit it."""
    if value is None:
        if schema.optional or schema.default is not None:
            return None
        raise Mismatch("is null, and its schema is not optional")
    return _CHECKS[schema.logical or schema.type](schema, value)


def _cells(schema: Schema, values: Mapping[str, Any]) -> tuple[Any, ...]:
    if schema.type is not Type.STRUCT:
        raise Mismatch(f"has a schema of type {schema.type}, which has no fields")
    more = [name for name in values if name not in schema.places]
    if more:
        raise Mismatch(f"has a field {more[0]!r:.60} that its schema lacks")
    cells = []
    for field in schema.fields:
        try:
            cells.append(checked(field.schema, values.get(field.name)))
        except Mismatch as error:
            raise error.within(f"its field {field.name:.60}") from None
    return tuple(cells)


def _struct(schema: Schema, value: Any) -> Struct:
    if isinstance(value, Struct):
        if value.schema is schema or value.schema == schema:
            return value
        raise Mismatch("is a struct of another schema")
    if not isinstance(value, Mapping):
        raise _wrong(schema, value)
    return Struct.of_cells(schema, _cells(schema, value))


def _map(schema: Schema, value: Any) -> dict[Any, Any]:
    assert schema.keys is not None
    assert schema.values is not None
    if not isinstance(value, Mapping):
        raise _wrong(schema, value)
    try:
        return {checked(schema.keys, key): checked(schema.values, one) for key, one in value.items()}
    except Mismatch as error:
        raise error.within("a key or a value of it") from None


def _array(schema: Schema, value: Any) -> list[Any]:
    assert schema.values is not None
    if not isinstance(value, list | tuple):
        raise _wrong(schema, value)
    try:
        return [checked(schema.values, one) for one in value]
    except Mismatch as error:
        raise error.within("an item of it") from None


def _whole(schema: Schema, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(schema, value)
    limit = 1 << (_BITS[schema.type] - 1)
    if not -limit <= value < limit:
        raise Mismatch(f"is {_shown(value)}, which does not fit into {schema.type}")
    return int(value)


def _shown(value: Any) -> str:
    """Return a number for a message. Python does not write whole numbers of thousands of digits."""
    large = isinstance(value, int) and value.bit_length() > 128
    return f"a whole number of {value.bit_length()} bits" if large else f"{value!s:.40}"


def _floating(schema: Schema, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(schema, value)
    try:
        number = float(value)
        if schema.type is Type.FLOAT32:
            number = float(_FLOAT.unpack(_FLOAT.pack(number))[0])
    except OverflowError:
        raise Mismatch(f"is {_shown(value)}, which does not fit into {schema.type}") from None
    if isinstance(value, int) and number != value:
        raise Mismatch(f"is {_shown(value)}, which {schema.type} does not hold exactly")
    return number


def _decimal(schema: Schema, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, Decimal | int):
        raise _wrong(schema, value)
    number = Decimal(value)
    if not number.is_finite():
        raise Mismatch(f"is {number}, which is no decimal of Kafka Connect")
    made = number.quantize(Decimal((0, (1,), -schema.scale)), context=_EXACT)
    if made != number:
        raise Mismatch(f"is {number!s:.40}, which has more than {schema.scale} digits after its point")
    return made


def _instance(*kinds: type, other_than: type | None = None) -> Callable[[Schema, Any], Any]:
    def check(schema: Schema, value: Any) -> Any:
        if not isinstance(value, kinds) or (other_than is not None and isinstance(value, other_than)):
            raise _wrong(schema, value)
        return value

    return check


def _bytes(schema: Schema, value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _wrong(schema, value)
    return bytes(value)


def _wrong(schema: Schema, value: Any) -> Mismatch:
    kind = (schema.logical or schema.type).rpartition(".")[2]
    return Mismatch(f"is of type {type(value).__name__}, and its schema is {kind}")


_CHECKS: Mapping[str, Callable[[Schema, Any], Any]] = {
    **dict.fromkeys(_BITS, _whole),
    **dict.fromkeys((Type.FLOAT32, Type.FLOAT64), _floating),
    Type.BOOLEAN: _instance(bool),
    Type.STRING: _instance(str),
    Type.BYTES: _bytes,
    Type.ARRAY: _array,
    Type.MAP: _map,
    Type.STRUCT: _struct,
    DECIMAL: _decimal,
    DATE: _instance(date, other_than=datetime),
    TIME: _instance(time),
    TIMESTAMP: _instance(datetime),
}
