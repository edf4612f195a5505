"""Types of columns: the schema of a column's values, and the values of PostgreSQL's texts, as Debezium has them."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from semel.connect.connectors.postgres import text_values as texts
from semel.errors import ConfigError
from semel.serdes.schemas import Schema, Struct
from semel.serdes.schemas.schema import Details

__all__ = ["Forms", "Kind", "PgType", "kind_of", "unreadable"]

_TIME, _DATA = "io.debezium.time.", "io.debezium.data."
VARIABLE_DECIMAL = Schema.struct(
    {"scale": Schema.int32(), "value": Schema.bytes()},
    name=f"{_DATA}VariableScaleDecimal",
    version=1,
    doc="Variable scaled decimal",
)
POINT = Schema.struct(
    {
        "x": Schema.float64(),
        "y": Schema.float64(),
        "wkb": Schema.bytes(optional=True),
        "srid": Schema.int32(optional=True),
    },
    name=f"{_DATA}geometry.Point",
    version=1,
    doc="Geometry (POINT)",
)


@dataclass(frozen=True, slots=True)
class Forms:
    """How values are given where there are several ways: the ``…handling.mode`` properties."""

    decimal: str = "precise"
    time: str = "adaptive"
    binary: str = "bytes"
    interval: str = "numeric"
    hstore: str = "json"
    money_digits: int = 2
    unavailable: str = "__debezium_unavailable_value"

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Forms:
        """Return those of a configuration."""
        return cls(
            decimal=config["decimal.handling.mode"],
            time=config["time.precision.mode"],
            binary=config["binary.handling.mode"],
            interval=config["interval.handling.mode"],
            hstore=config["hstore.handling.mode"],
            money_digits=config["money.fraction.digits"],
            unavailable=config["unavailable.value.placeholder"],
        )


@dataclass(frozen=True, slots=True)
class PgType:
    """Type as the catalog has it. ``kind`` is pg_type.typtype. An array has an ``element``."""

    oid: int
    name: str
    kind: str
    category: str
    element: int
    base: int
    base_modifier: int
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """Values of a column. ``blank`` is in the place of a null that may not be, ``unavailable`` in that of a value that
    PostgreSQL does not repeat.
    """

    schema: Schema
    read: Callable[[str], Any]
    blank: Any
    unavailable: Any = None


def unreadable(where: str, what: str) -> ConfigError:
    """Return the error for a value that has no form in a record."""
    return ConfigError(
        f"{where} cannot be read: {what}. Nothing of this transaction is visible. Leave the column out"
        " (column.exclude.list), or choose another form (decimal.handling.mode).",
        tag="WRONG_TYPE",
    )


def kind_of(kind: PgType, modifier: int, forms: Forms, resolve: Callable[[int], PgType]) -> Kind | None:
    """Return what a column of this type holds; None for a type that is left out, as Debezium leaves it out."""
    if kind.kind == "d":
        return kind_of(resolve(kind.base), kind.base_modifier if modifier < 0 else modifier, forms, resolve)
    if kind.category == "A" and kind.element:
        return _array(resolve(kind.element), modifier, forms, resolve)
    if kind.kind == "e":
        return _text(
            Schema.string(name=f"{_DATA}Enum", version=1, parameters={"allowed": ",".join(kind.labels)}), forms
        )
    if kind.kind in ("r", "m"):
        return _text(Schema.string(), forms)
    make = _KINDS.get(kind.name)
    return None if make is None else make(modifier, forms)


def _array(element: PgType, modifier: int, forms: Forms, resolve: Callable[[int], PgType]) -> Kind | None:
    of = kind_of(element, modifier, forms, resolve)
    if of is None:
        return None
    items = of.schema.but(optional=element.kind != "e")
    delimiter, read = (";" if element.name == "box" else ","), of.read
    unavailable = None if of.unavailable is None else [of.unavailable]
    return Kind(Schema.array(items), lambda text: texts.items(text, read, delimiter), [], unavailable)


def _text(schema: Schema, forms: Forms) -> Kind:
    return Kind(schema, str, "", forms.unavailable)


def _named(name: str, **more: Any) -> Details:
    details: Details = {"name": name, "version": 1}
    if more:
        details["parameters"] = more
    return details


def _simple(schema: Schema, read: Callable[[str], Any], blank: Any) -> Callable[[int, Forms], Kind]:
    made = Kind(schema, read, blank)
    return lambda _modifier, _forms: made


def _string(name: str | None = None) -> Callable[[int, Forms], Kind]:
    schema = Schema.string(**_named(name)) if name else Schema.string()
    return lambda _, forms: _text(schema, forms)


def _bytes(_: int, forms: Forms) -> Kind:
    away = forms.unavailable.encode()

    def of(write: Callable[[bytes], Any], schema: Schema) -> Kind:
        return Kind(schema, lambda text: write(bytes.fromhex(text[2:])), write(b""), write(away))

    match forms.binary:
        case "base64":
            return of(lambda one: base64.b64encode(one).decode(), Schema.string())
        case "base64-url-safe":
            return of(lambda one: base64.urlsafe_b64encode(one).decode(), Schema.string())
        case "hex":
            return of(bytes.hex, Schema.string())
        case _:
            return of(bytes, Schema.bytes())


def _numeric(modifier: int, forms: Forms) -> Kind:
    if forms.decimal == "string":
        return _text(Schema.string(), forms)
    if forms.decimal == "double":
        return Kind(Schema.float64(), float, 0.0)
    if modifier < 0:
        return Kind(VARIABLE_DECIMAL, _variable, Struct(VARIABLE_DECIMAL, {"scale": 0, "value": b"\0"}))
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    if scale >= 1024:
        scale -= 2048
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    schema = replace(Schema.decimal(scale), parameters=parameters)
    exponent = Decimal((0, (1,), -scale))
    return Kind(
        schema,
        lambda text: _finite(text) if scale >= 0 else _finite(text).quantize(exponent),
        Decimal(0).quantize(exponent),
    )


def _finite(text: str) -> Decimal:
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError(f"{text} is no decimal of Kafka Connect: set decimal.handling.mode=string or double")
    return number


def _variable(text: str) -> Struct:
    """Return a decimal with its own scale, without zeros at its end."""
    number = _finite(text)
    sign, digits, exponent = number.as_tuple()
    unscaled, scale = int("".join(map(str, digits))), -int(exponent)
    while scale > 0 and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    unscaled = -unscaled if sign else unscaled
    size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return Struct.of_cells(VARIABLE_DECIMAL, (scale, unscaled.to_bytes(size, signed=True)))


def _money(_: int, forms: Forms) -> Kind:
    if forms.decimal == "string":
        return Kind(Schema.string(), lambda text: str(texts.money(text)), "")
    if forms.decimal == "double":
        return Kind(Schema.float64(), lambda text: float(texts.money(text)), 0.0)
    exponent = Decimal((0, (1,), -forms.money_digits))
    return Kind(Schema.decimal(forms.money_digits), lambda text: texts.money(text).quantize(exponent), exponent * 0)


def _precision(modifier: int) -> int:
    return 6 if modifier < 0 else modifier


def _date(_: int, forms: Forms) -> Kind:
    if forms.time == "isostring":
        return Kind(Schema.string(**_named(f"{_TIME}IsoDate")), lambda text: f"{text}Z", "1970-01-01Z")
    return Kind(Schema.int32(**_named(f"{_TIME}Date")), texts.days, 0)


def _time(modifier: int, forms: Forms) -> Kind:
    if forms.time == "connect" or (forms.time == "adaptive" and _precision(modifier) <= 3):
        return Kind(Schema.int32(**_named(f"{_TIME}Time")), lambda text: texts.time_us(text) // 1000, 0)
    return Kind(Schema.int64(**_named(f"{_TIME}MicroTime")), texts.time_us, 0)


def _timestamp(modifier: int, forms: Forms) -> Kind:
    if forms.time == "connect" or _precision(modifier) <= 3:
        return Kind(Schema.int64(**_named(f"{_TIME}Timestamp")), lambda text: texts.microseconds(text) // 1000, 0)
    return Kind(Schema.int64(**_named(f"{_TIME}MicroTimestamp")), texts.microseconds, 0)


def _interval(_: int, forms: Forms) -> Kind:
    if forms.interval == "string":
        return Kind(Schema.string(**_named(f"{_TIME}Interval")), texts.iso_duration, "P0Y0M0DT0H0M0S")
    return Kind(Schema.int64(**_named(f"{_TIME}MicroDuration")), texts.duration_us, 0)


def _hstore(_: int, forms: Forms) -> Kind:
    if forms.hstore == "map":
        schema = Schema.map(Schema.string(), Schema.string(optional=True))
        return Kind(schema, texts.hstore_pairs, {}, {forms.unavailable: forms.unavailable})
    away = json.dumps({forms.unavailable: forms.unavailable}, separators=(",", ":"))
    schema = Schema.string(**_named(f"{_DATA}Json"))
    return Kind(schema, _hstore_json, "{}", away)


def _hstore_json(text: str) -> str:
    return json.dumps(texts.hstore_pairs(text), separators=(",", ":"), ensure_ascii=False)


def _bit(modifier: int, forms: Forms) -> Kind:
    if modifier == 1:
        return Kind(Schema.boolean(), lambda text: text == "1", False)
    return _varbit(modifier, forms)


def _varbit(modifier: int, _: Forms) -> Kind:
    length = str(modifier) if modifier >= 0 else str(2**31 - 1)
    return Kind(Schema.bytes(**_named(f"{_DATA}Bits", length=length)), _bits, b"")


def _bits(text: str) -> bytes:
    """Return bits as bytes, the last ones first, as Java's BitSet has them."""
    number = int(text or "0", 2)
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def _point(text: str) -> Struct:
    x, y = (float(one) for one in text.strip("()").split(","))
    return Struct.of_cells(POINT, (x, y, struct.pack("<BIdd", 1, 1, x, y), None))


_KINDS: Mapping[str, Callable[[int, Forms], Kind]] = {
    "bool": _simple(Schema.boolean(), lambda text: text == "t", False),
    "int2": _simple(Schema.int16(), int, 0),
    "int4": _simple(Schema.int32(), int, 0),
    "int8": _simple(Schema.int64(), int, 0),
    "oid": _simple(Schema.int64(), int, 0),
    "float4": _simple(Schema.float32(), float, 0.0),
    "float8": _simple(Schema.float64(), float, 0.0),
    "numeric": _numeric,
    "money": _money,
    "bytea": _bytes,
    "date": _date,
    "time": _time,
    "timetz": _simple(Schema.string(**_named(f"{_TIME}ZonedTime")), texts.zoned_time, "00:00:00Z"),
    "timestamp": _timestamp,
    "timestamptz": _simple(
        Schema.string(**_named(f"{_TIME}ZonedTimestamp")), texts.zoned_timestamp, "1970-01-01T00:00:00.000000Z"
    ),
    "interval": _interval,
    "uuid": _simple(Schema.string(**_named(f"{_DATA}Uuid")), str, "00000000-0000-0000-0000-000000000000"),
    "json": _string(f"{_DATA}Json"),
    "jsonb": _string(f"{_DATA}Json"),
    "xml": _string(f"{_DATA}Xml"),
    "hstore": _hstore,
    "ltree": _string(f"{_DATA}Ltree"),
    "tsvector": _string(f"{_DATA}Tsvector"),
    "bit": _bit,
    "varbit": _varbit,
    "point": _simple(POINT, _point, _point("(0,0)")),
    **dict.fromkeys(
        ("text", "varchar", "bpchar", "char", "name", "citext", "inet", "cidr", "macaddr", "macaddr8"), _string()
    ),
}
