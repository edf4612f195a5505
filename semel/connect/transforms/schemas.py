"""Types and names of schemas: ``Cast`` and ``SetSchemaMetadata``."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from semel.connect.transforms.base import Row, S, Side, Transform, refused
from semel.errors import ConfigError
from semel.serdes.java_value import java_number, java_string
from semel.serdes.json_value import milliseconds
from semel.serdes.schemas import Schema, Struct, Type
from semel.settings import Setting

__all__ = ["Cast", "SetSchemaMetadata", "header_text"]

_WHOLE = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_FLOATING = (Type.FLOAT32, Type.FLOAT64)
_TARGETS = (*_WHOLE, *_FLOATING, Type.BOOLEAN, Type.STRING)
_DIGITS = re.compile(r"[+-]?[0-9]+")
#: What Java reads as a floating number.
_REAL = re.compile(r"\s*([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?\s*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MS = 86_400_000


class Cast(Transform):
    """Gives a value, or some of its fields, another type: what does not fit is cut off as in Java."""

    options: ClassVar[Mapping[str, Setting]] = {
        "spec": Setting(list),
        "replace.null.with.default": Setting(bool, default=True),
    }

    def __init__(self, options: Mapping[str, Any], side: str) -> None:
        super().__init__(options, side)
        pairs = [one.rpartition(":") for one in options["spec"]]
        types = [kind.strip().lower() for _, _, kind in pairs]
        wrong = next((one for one in types if one not in _TARGETS), None)
        if wrong is not None:
            raise ConfigError(f"spec has the type {wrong:.100}. It may be {', '.join(_TARGETS)}.", tag="TRANSFORM")
        self._fields = {field.strip(): Type(kind) for (field, _, _), kind in zip(pairs, types, strict=True)}
        if "" in self._fields and len(self._fields) > 1:
            raise ConfigError("spec names a type for the whole value, and more beside it.", tag="TRANSFORM")

    def changed(self, side: S, row: Row) -> S:
        """Return the side with another type, or with some fields of another type."""
        whole = self._fields.get("")
        if whole is not None:
            return self._cast(side, whole, whole=True)
        parts = self.parts(side)
        for name, kind in self._fields.items():
            part = parts.get(name, side.null())
            if part is not None:
                parts[name] = self._cast(part, kind)
        return side.with_same_parts(parts)

    def _cast(self, side: S, kind: Type, *, whole: bool = False) -> S:
        def new(schema: Schema) -> Schema:
            default = None if schema.default is None else self._value(schema, schema.default, kind)
            if whole and schema.logical is None:
                return Schema(
                    kind, schema.optional, default, schema.name, schema.version, schema.doc, schema.parameters
                )
            return Schema(kind, schema.optional, default)

        return side.mapped(new, lambda schema, value: self._value(schema, value, kind), _QUICK.get(kind))

    def _value(self, schema: Schema | None, value: Any, kind: Type) -> Any:
        try:
            return _cast(schema, value, kind)
        except (TypeError, ValueError, ArithmeticError):
            raise refused(self.name, f"a value of type {type(value).__name__} cannot become {kind}") from None


def _cast(schema: Schema | None, value: Any, kind: Type) -> Any:
    if isinstance(value, list | tuple | Mapping) or (schema is not None and schema.type is Type.STRUCT):
        raise TypeError
    if kind is Type.STRING:
        return _text(schema, value)
    if isinstance(value, datetime | time):
        value = milliseconds(value)
    elif isinstance(value, date):
        value = _days(value)
    if kind is Type.BOOLEAN:
        return value.lower() == "true" if isinstance(value, str) else _long(value) != 0
    if kind in _WHOLE:
        return _parsed(value, _WHOLE[kind]) if isinstance(value, str) else _cut(value, _WHOLE[kind])
    number = _real(value) if isinstance(value, str) else float(value)
    return number if kind is Type.FLOAT64 else _single(number, exact=schema is not None)


def _single(number: float, *, exact: bool) -> float:
    """Return a number of 32 bits. Where no schema says so, it is the one whose digits Java would show."""
    with np.errstate(over="ignore"):
        single = np.float32(number)
    return float(single if exact else java_number(float(single), 32))


def _real(text: str) -> float:
    found = _REAL.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return float(found[1])


def _parsed(text: str, bits: int) -> int:
    if not _DIGITS.fullmatch(text):
        raise ValueError(text)
    number = int(text)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(text)
    return number


def _long(value: Any) -> int:
    return _cut(value, 64)


def _cut(value: Any, bits: int) -> int:
    """Return a number as Java makes it narrower: a fraction becomes the nearest number that an int, or a long, has."""
    if isinstance(value, float):
        limit = 1 << (63 if bits == 64 else 31)
        value = 0 if math.isnan(value) else int(max(-limit, min(limit - 1, value)))
    elif not isinstance(value, int | Decimal):
        raise TypeError
    half = 1 << bits - 1
    return (int(value) + half) % (half << 1) - half


def _text(schema: Schema | None, value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return _time_text(value)
    return value if isinstance(value, str) else java_string(schema, value)


def header_text(schema: Schema | None, value: Any) -> bytes | None:
    """Return a value as ``SimpleHeaderConverter`` writes it: alone as text, within a list or a structure quoted."""
    if value is None:
        return None
    return (
        _inner(schema, value) if isinstance(value, list | tuple | Mapping | Struct) else _text(schema, value)
    ).encode()


def _inner(schema: Schema | None, value: Any) -> str:
    """Return a value within others as Kafka Connect writes it in a header."""
    if value is None:
        return "null"
    if isinstance(value, Struct):
        fields = ((one.name, one.schema, value[one.name]) for one in value.schema.fields)
        return "{" + ",".join(f"{_quoted(name)}:{_inner(kind, one)}" for name, kind, one in fields) + "}"
    if isinstance(value, Mapping):
        keys, values = (None, None) if schema is None else (schema.keys, schema.values)
        return "{" + ",".join(f"{_inner(keys, key)}:{_inner(values, one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        values = None if schema is None else schema.values
        return "[" + ",".join(_inner(values, one) for one in value) + "]"
    text = _text(schema, value)
    return _quoted(text) if isinstance(value, str | bytes | bytearray | memoryview) else text


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _time_text(value: datetime | date | time) -> str:
    """Return a time as Kafka Connect writes it in a header: what is below a day is a time of a day."""
    since = milliseconds(value) if isinstance(value, datetime | time) else _days(value) * _DAY_MS
    moment = _EPOCH + timedelta(milliseconds=since)
    if since >= _DAY_MS and since % _DAY_MS == 0:
        return f"{moment:%Y-%m-%d}"
    form = "%H:%M:%S" if since < _DAY_MS else "%Y-%m-%dT%H:%M:%S"
    return f"{moment:{form}}.{since % 1000:03d}Z"


def _days(value: date) -> int:
    return value.toordinal() - _EPOCH.toordinal()


def _narrowed(kind: str) -> Callable[[Any], Any]:
    def narrow(values: Any) -> Any:
        if not pa.types.is_integer(values.type):
            return None
        cut = values.fill_null(0).to_numpy(zero_copy_only=False).astype(kind)
        return pa.array(cut, mask=values.is_null().to_numpy(zero_copy_only=False))

    return narrow


#: What takes a column of whole numbers at once; of others it returns None.
_QUICK: Mapping[Type, Callable[[Any], Any]] = {
    **{kind: _narrowed(f"int{bits}") for kind, bits in _WHOLE.items()},
    Type.FLOAT32: _narrowed("float32"),
    Type.FLOAT64: _narrowed("float64"),
    Type.STRING: lambda values: values.cast(pa.string()) if pa.types.is_integer(values.type) else None,
}


class SetSchemaMetadata(Transform):
    """Gives a schema another name, or another version. A value without a schema has none to be changed."""

    options: ClassVar[Mapping[str, Setting]] = {
        "schema.name": Setting(str, default=None),
        "schema.version": Setting(int, default=None),
        "replace.null.with.default": Setting(bool, default=True),
    }

    def spares(self, side: Side) -> bool:
        """Return whether it is a tombstone."""
        return side.is_tombstone

    def changed(self, side: S, row: Row) -> S:
        """Return the side with the other schema."""
        name, version = self.given["schema.name"], self.given["schema.version"]

        def new(schema: Schema) -> Schema:
            if schema.logical is not None and name not in (None, schema.name):
                raise refused(self.name, f"a {schema.logical} by another name is none")
            return schema.but(name=name or schema.name, version=schema.version if version is None else version)

        made = side.renamed(new)
        if made is None:
            raise refused(self.name, f"only a value with a schema has its metadata, and it found {side}")
        return made
