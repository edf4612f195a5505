"""Java's ``toString``, a column at a time: what ``StringConverter`` writes of values that are no text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semel.serdes.columns import is_json, is_list, joined_items
from semel.serdes.java_value import java_number
from semel.serdes.unfit import WrongType

__all__ = ["java_text", "number_text", "without_zone"]

_NUMBER = r"^(?P<sign>-?)(?P<whole>\d+)(?:\.(?P<part>\d+))?(?:e(?P<power>[+-]?\d+))?$"
#: Below, numbers of 32 and of 64 bits have so few digits that Java chooses others.
_SUBNORMAL = {32: 1e-43, 64: 1e-321}
#: A whole number of more than 64 bits.
_LARGE = r"^-?\d+$"
#: Java's Date, in UTC.
_DATE = "%a %b %d %H:%M:%S UTC %Y"


def java_text(column: Any) -> Any:
    """Return each value as Java shows it. Raise :class:`WrongType` for a type that has no such text."""
    kind = column.type
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.string())
    if pa.types.is_struct(kind):
        return _struct(column)
    if pa.types.is_map(kind):
        pairs = column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
        shown = (pc.fill_null(java_text(part), "null") for part in pairs.flatten().flatten())
        return joined_items(pairs, pc.binary_join_element_wise(*shown, "="), ", ", "{}")
    if is_list(kind):
        return joined_items(column, pc.fill_null(java_text(column.flatten()), "null"), ", ")
    if pa.types.is_floating(kind):
        return number_text(column)
    if is_json(kind) and pc.all(pc.match_substring_regex(column.storage, _LARGE)).as_py() is not False:
        return column.storage.cast(pa.string())
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind):
        return _date(column)
    if (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    ):
        return column.cast(pa.string())
    raise WrongType(kind)


def _struct(column: Any) -> Any:
    """``Struct{id=1,name=x}``, without the fields that are null."""
    parts = [
        pc.binary_join_element_wise(f"{field.name}=", java_text(values), "")
        for field, values in zip(column.type, column.flatten(), strict=True)
    ]
    if parts:
        fields = pc.binary_join_element_wise(*parts, ",", null_handling="skip")
        text = pc.binary_join_element_wise("Struct{", fields, "}", "")
    else:
        text = pa.repeat("Struct{}", len(column))
    return pc.if_else(column.is_null(), pa.scalar(None, pa.string()), text)


def _date(column: Any) -> Any:
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = without_zone(column)
    elif pa.types.is_time(kind):
        whole = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        column = column.cast(whole).cast(pa.int64()).cast(pa.timestamp(kind.unit))
    else:
        column = column.cast(pa.timestamp("ms"))
    seconds = pc.floor_temporal(column, unit="second").cast(pa.timestamp("s"))
    return pc.strftime(seconds, _DATE)


def without_zone(column: Any) -> Any:
    """Return timestamps as those of UTC."""
    return column.cast(pa.int64()).cast(pa.timestamp(column.type.unit))


def number_text(column: Any) -> Any:
    """Return floating numbers as Java writes them: 1.0, 0.001, 1.0E7, NaN."""
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    text = column.cast(pa.string())
    text = pc.if_else(pc.match_substring(text, "."), text, pc.binary_join_element_wise(text, "0", "."))
    size = pc.abs(column.cast(pa.float64()))
    plain = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)))
    if pc.all(plain).as_py() is not False:
        return text
    other = pc.invert(pc.fill_null(plain, True))
    text = pc.replace_with_mask(text, other, _scientific(column.filter(other)))
    bits = column.type.bit_width
    smallest = pc.and_(pc.less(size, _SUBNORMAL[bits]), pc.greater(size, 0))
    if not pc.any(smallest).as_py():
        return text
    shown = [java_number(value, bits) for value in column.filter(smallest).to_pylist()]
    return pc.replace_with_mask(text, pc.fill_null(smallest, False), pa.array(shown))


def _scientific(column: Any) -> Any:
    parts = pc.extract_regex(column.cast(pa.string()), _NUMBER)
    sign, whole, part, power = (pc.struct_field(parts, name) for name in ("sign", "whole", "part", "power"))
    digits = pc.binary_join_element_wise(whole, part, "")
    shown = pc.utf8_ltrim(digits, "0")
    zeros = pc.subtract(pc.utf8_length(digits), pc.utf8_length(shown))
    exponent = pc.add(pc.subtract(pc.utf8_length(whole), 1), _number(power))
    exponent = pc.subtract(exponent, zeros).cast(pa.string())
    first, rest = pc.utf8_slice_codeunits(shown, 0, 1), pc.utf8_rtrim(pc.utf8_slice_codeunits(shown, 1), "0")
    rest = pc.if_else(pc.equal(rest, ""), "0", rest)
    made = pc.binary_join_element_wise(sign, first, ".", rest, "E", exponent, "")
    infinite = pc.if_else(pc.greater(column, 0), "Infinity", "-Infinity")
    made = pc.if_else(pc.is_inf(column), infinite, made)
    return pc.if_else(pc.is_nan(column), "NaN", made)


def _number(text: Any) -> Any:
    plain = pc.replace_substring_regex(pc.if_else(pc.equal(text, ""), "0", text), r"^\+", "")
    return plain.cast(pa.int32())
