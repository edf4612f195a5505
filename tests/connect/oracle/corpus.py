"""About 300 values, with and without schemas, and the chains of transformations that each of them goes through."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

__all__ = ["CHAINS", "HOW", "PARTITION", "TIMESTAMP", "corpus"]

#: Options, by the word after a converter's name.
HOW: dict[str, dict[str, str]] = {
    "": {},
    "schemaless": {"schemas.enable": "false"},
    "numeric": {"decimal.format": "NUMERIC"},
    "nulls": {"replace.null.with.default": "false"},
}
_DATA = "org.apache.kafka.connect.data."
PARTITION, TIMESTAMP = 3, 86_400_123
_Json = dict[str, Any]


def _logical(kind: str, name: str, **more: Any) -> _Json:
    return {"type": kind, "optional": False, "name": f"{_DATA}{name}", "version": 1, **more}


def _decimal(scale: int) -> _Json:
    return _logical("bytes", "Decimal", parameters={"scale": str(scale)})


def _digits(number: int) -> str:
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, signed=True)).decode()


def _plain(kind: str) -> _Json:
    return {"type": kind, "optional": False}


_DATE, _TIME, _MOMENT = _logical("int32", "Date"), _logical("int32", "Time"), _logical("int64", "Timestamp")
#: Schemas, and values of each.
_SCALARS: list[tuple[_Json, list[Any]]] = [
    (_plain("int8"), [0, 127, -128]),
    (_plain("int16"), [7, -(2**15), 2**15 - 1]),
    (_plain("int32"), [1, -(2**31), 2**31 - 1]),
    (_plain("int64"), [0, -1, 2**63 - 1, -(2**63), 2**53 + 1]),
    (_plain("float"), [0.5, 1e10, 0.1, 16777216.0, 1e-5, 3.4028235e38, "NaN", "-Infinity"]),
    (_plain("double"), [0.0, 1.0, -1.5, 0.001, 0.00099, 1e7, 9999999.0, 1.25e-7, 123456.789, 1e300, 5e-324, "NaN"]),
    (_plain("boolean"), [True, False]),
    (_plain("string"), ["", "foo", 'a"\\\n\u00e9\U0001f600', "\x00\x1f\x7f\u2028", "2020-02-29 12:00:01"]),
    (_plain("bytes"), ["", "Zm9v"]),
    (_decimal(2), [_digits(150), _digits(-1), _digits(0), _digits(10**30)]),
    (_decimal(0), [_digits(128), _digits(-128)]),
    (_decimal(-2), [_digits(7)]),
    (_decimal(10), [_digits(1)]),
    (_DATE, [0, 3, -100_000, 2_932_896]),
    (_TIME, [0, 3_600_000, 86_399_999]),
    (_MOMENT, [0, 86_400_123, -1, 1_582_977_601_999]),
]
_DETAILS: list[_Json] = [
    {"optional": True},
    {"name": "shop.Thing", "version": 3},
    {"doc": 'of "things"', "parameters": {"unit": "kg", "z": ""}},
]
_SCHEMALESS: list[Any] = [
    *(0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 1.0, 0.5, 1e10, 1e-7, 0.1, 123456.789, True, False),
    *("", "foo", "1", "null", "\U0001f600", 'a"b', "2020-02-29 12:00:01", None),
    *([], [1], [1, "x"], [1, 1.0], [None], [[1], []], [{"a": 1}, {"b": 2}], [True, None, "x", 0.5]),
    *({}, {"a": 1}, {"b": 2}, {"a": 1.0}, {"a": None}, {"a": "x"}, {"a": True}, {"a": []}, {"a": {}}),
    *({"a": 1, "b": 2}, {"a": 1, "b": None}, {"a": None, "b": None}, {"a": "x", "b": 1.5}, {"a": {"a": 1}, "b": [1]}),
    *({"a": 1, "at": 0}, {"a": 2, "at": 86_400_123}, {"a": 3, "at": None}, {"a": 4, "at": "2020-02-29 12:00:01"}),
    *({"a": [1, {"b": 2}]}, {"a": [{"b": 2}, 1]}, {"a": 2**53 + 1}, {"a": 2**63 - 1, "b": 0.1}, {"": 1}, {"z": "y"}),
    *({"a": False, "b": ""}, {"a": 0, "b": "0"}, {"a": {"b": {"c": None}}}, {"b": {"a": 1}, "c": 1}, {"at": -1}),
]


def _struct(fields: dict[str, _Json], **more: Any) -> _Json:
    return {
        "type": "struct",
        "fields": [{**kind, "field": name} for name, kind in fields.items()],
        "optional": False,
        **more,
    }


def _given(schema: _Json | None, payload: Any) -> _Json:
    return {"schema": schema, "payload": payload}


def _scalars() -> Iterator[_Json]:
    for schema, values in _SCALARS:
        yield from (_given(schema, value) for value in values)
        for details in _DETAILS:
            if "name" not in schema or "name" not in details:
                more = {**details, "parameters": schema["parameters"]} if "parameters" in schema else details
                yield _given({**schema, **more}, values[0])
        yield _given({**schema, "optional": True}, None)
        yield _given({**schema, "optional": True, "default": values[0]}, None)


def _composed() -> Iterator[_Json]:
    for schema, values in _SCALARS:
        payload = [
            value for value in values if schema["type"] == "string" or not isinstance(value, str) or "name" in schema
        ]
        if schema["type"] == "bytes":
            payload = values
        array = {"type": "array", "items": {**schema, "optional": True}, "optional": False}
        yield _given(array, [*payload, None])
        keyed = {"type": "map", "keys": _plain("string"), "values": schema, "optional": False}
        yield _given(keyed, {"a": payload[0]})
        fields = {"a": schema, "b": {**schema, "optional": True}, "at": {**_MOMENT, "optional": True}}
        yield _given(_struct(fields), {"a": payload[-1], "b": None, "at": 86_400_123})
        yield _given(
            _struct(fields, name="shop.Row", version=2, doc="a row", parameters={"x": "y"}),
            {"a": payload[0], "b": payload[-1], "at": None},
        )
        fields = {"a": {**schema, "optional": True, "default": payload[0]}, "b": _plain("int32")}
        yield _given(_struct(fields, optional=True), {"a": None, "b": 1})
    row = _struct({"a": _plain("int64"), "b": {**_plain("string"), "optional": True}})
    numbered = {"type": "map", "keys": _plain("int32"), "values": _plain("string"), "optional": False}
    yield from (_given(numbered, payload) for payload in ([], [[1, "x"]], [[-1, ""]]))
    for outer in (
        {"type": "array", "items": row, "optional": False},
        {"type": "map", "keys": _plain("string"), "values": row, "optional": False},
    ):
        inner = {"a": 1, "b": None}
        yield _given(outer, [inner, {"a": 2, "b": "x"}] if outer["type"] == "array" else {"k": inner})
        yield _given(_struct({"a": outer, "b": row}), {"a": [] if outer["type"] == "array" else {}, "b": inner})
    yield _given({**row, "optional": True}, None)
    yield _given(_struct({}), {})
    for at in (_plain("int64"), _plain("string"), _DATE, _MOMENT):
        text = "2020-02-29 12:00:01" if at["type"] == "string" else 3
        yield _given(_struct({"a": _plain("int32"), "at": at}), {"a": 1, "at": text})
        yield _given(
            _struct({"a": _plain("int32"), "at": {**at, "optional": True}}, optional=True), {"a": 1, "at": None}
        )


def corpus() -> list[_Json]:
    """Return the values, each with its schema or without one."""
    schemaless = (_given(None, value) for value in _SCHEMALESS)
    return [
        {"given": one, "partition": PARTITION, "timestamp": TIMESTAMP}
        for one in (*_scalars(), *_composed(), *schemaless)
    ]


def _step(kind: str, **options: str) -> dict[str, str]:
    return {"type": kind, **{name.replace("_", "."): value for name, value in options.items()}}


_TIMES = "TimestampConverter$Value"
CHAINS: dict[str, list[dict[str, str]]] = {
    "hoist": [_step("HoistField$Value", field="line")],
    "hoist twice": [_step("HoistField$Value", field="x"), _step("HoistField$Value", field="y")],
    "extract": [_step("ExtractField$Value", field="a")],
    "hoist and extract": [_step("HoistField$Value", field="x"), _step("ExtractField$Value", field="x")],
    "insert": [
        _step("InsertField$Value", topic_field="t!", partition_field="p", timestamp_field="w?"),
        _step("InsertField$Value", static_field="from", static_value="shop"),
    ],
    "replace": [_step("ReplaceField$Value", exclude="b")],
    "rename": [_step("ReplaceField$Value", include="a,at", renames="a:z")],
    "mask": [_step("MaskField$Value", fields="a,b")],
    "mask with 7": [_step("MaskField$Value", fields="a", replacement="7")],
    "key": [_step("ValueToKey", fields="a")],
    "key of one field": [_step("ValueToKey", fields="a,b"), _step("ExtractField$Key", field="a")],
    "whole to unix": [_step(_TIMES, target_type="unix", format="yyyy-MM-dd HH:mm:ss")],
    "field to text": [_step(_TIMES, field="at", target_type="string", format="yyyy-MM-dd HH:mm:ss")],
    "field to unix": [_step(_TIMES, field="at", target_type="unix", unix_precision="seconds")],
    "field to timestamp": [_step(_TIMES, field="at", target_type="Timestamp", format="yyyy-MM-dd HH:mm:ss")],
    **{
        f"whole to {kind}": [_step("Cast$Value", spec=kind)]
        for kind in ("int8", "int64", "float32", "boolean", "string")
    },
    "fields cast": [_step("Cast$Value", spec="a:string,at:int64")],
    "fields narrowed": [_step("Cast$Value", spec="a:int16,b:float64")],
    "flat": [_step("Flatten$Value", delimiter="_")],
    "flat of a struct": [_step("HoistField$Value", field="x"), _step("Flatten$Value")],
    "named": [_step("SetSchemaMetadata$Value", schema_name="shop.Order", schema_version="4")],
    "moved": [_step("HeaderFrom$Value", fields="a,b", headers="x,y", operation="move")],
    "copied": [_step("HeaderFrom$Value", fields="a", headers="x", operation="copy")],
    "whole in a header": [
        _step("HoistField$Value", field="v"),
        _step("HeaderFrom$Value", fields="v", headers="w", operation="copy"),
        _step("ExtractField$Value", field="v"),
    ],
    "headers": [
        _step("InsertHeader", header="from", value_literal="shop"),
        _step("InsertHeader", header="to", value_literal="x y"),
        _step("InsertHeader", header="from", value_literal="again"),
        _step("DropHeaders", headers="to"),
    ],
    "by day": [_step("TimestampRouter", topic_format="day-${timestamp}-of-${topic}", timestamp_format="yyyy-MM-dd")],
    "by hour": [_step("TimestampRouter", timestamp_format="yyyyMMddHH")],
}
