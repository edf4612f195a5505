"""One value as Java's ``toString`` shows it: what ``StringConverter`` writes of a value that is no text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np

from semel.serdes.schemas.schema import Schema, Type
from semel.serdes.schemas.struct import Struct
from semel.serdes.unfit import WrongType

__all__ = ["java_number", "java_string"]

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def java_number(value: float, bits: int = 64) -> str:
    """Return a floating number as Java writes it: 1.0, 0.001, 1.0E7, NaN."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    text = repr(value) if bits == 64 else np.format_float_positional(np.float32(value), trim="0")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return text
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits)).lstrip("0")
    power = exponent + len(shown) - 1
    if len(shown) == 1:  # Java has two digits, of which the second is none but in the smallest numbers
        return _two_digits(value, text, bits)
    return f"{'-' if sign else ''}{shown[0]}.{shown[1:].rstrip('0') or '0'}E{power}"


def _two_digits(value: float, text: str, bits: int) -> str:
    """Return the number of two digits that is nearest, if it is read back as this one."""
    nearest = f"{value:.1e}"
    same = float(nearest) == value if bits == 64 else np.float32(nearest) == np.float32(value)
    digits, _, power = (nearest if same else f"{float(text):.1e}").partition("e")
    return f"{digits}E{int(power)}"


def java_string(schema: Schema | None, value: Any) -> str:
    """Return a value, by its schema if it has one, as Java shows it. Raise :class:`WrongType` where Java shows no more
    than an address.
    """
    if value is None:
        return "null"
    if schema is not None and schema.type is Type.FLOAT32:
        return java_number(value, 32)
    show = _SHOWN.get(type(value)) or next((one for kind, one in _SHOWN.items() if isinstance(value, kind)), None)
    if show is None:
        raise WrongType(type(value).__name__)
    return show(schema, value)


def _struct(_: Schema | None, value: Struct) -> str:
    """``Struct{id=1,name=x}``, without the fields that are null."""
    fields = zip(value.schema.fields, value.cells, strict=True)
    shown = (f"{field.name}={java_string(field.schema, cell)}" for field, cell in fields if cell is not None)
    return f"Struct{{{','.join(shown)}}}"


def _map(schema: Schema | None, value: Mapping[Any, Any]) -> str:
    keys, values = (None, None) if schema is None else (schema.keys, schema.values)
    pairs = (f"{java_string(keys, key)}={java_string(values, one)}" for key, one in value.items())
    return f"{{{', '.join(pairs)}}}"


def _list(schema: Schema | None, value: Iterable[Any]) -> str:
    items = None if schema is None else schema.values
    return f"[{', '.join(java_string(items, one) for one in value)}]"


def _date(_: Schema | None, value: date | time) -> str:
    """Java's Date, in UTC."""
    if isinstance(value, time):
        value = datetime.combine(date(1970, 1, 1), value)
    if not isinstance(value, datetime):
        value = datetime.combine(value, time())
    moment = value.astimezone(UTC) if value.tzinfo is not None else value
    day, month = _DAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{day} {month} {moment:%d %H:%M:%S} UTC {moment.year}"


#: A subclass stands before its base.
_SHOWN: Mapping[type, Callable[[Schema | None, Any], str]] = {
    str: lambda _, value: str(value),
    bool: lambda _, value: "true" if value else "false",
    int: lambda _, value: str(int(value)),
    float: lambda _, value: java_number(value),
    dict: _map,
    list: _list,
    tuple: _list,
    Struct: _struct,
    Mapping: _map,
    datetime: _date,
    date: _date,
    time: _date,
    Decimal: lambda _, value: str(value),
    UUID: lambda _, value: str(value),
}
