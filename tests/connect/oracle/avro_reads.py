"""Ask Apicurio's ``AvroData``, which is Confluent's of an earlier version, what values of Avro are in Kafka Connect."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from semel.serdes.avro.reader import is_bytes, parsed
from tests.connect.oracle.avro import ANSWERS as WRITTEN
from tests.connect.oracle.avro import ask

__all__ = ["ANSWERS"]

ANSWERS = Path(__file__).parent / "avro_reads.json"


def _record(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "namespace": "shop", "fields": list(fields), **more}


def _field(kind: Any, name: str = "a", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


_COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
_HASH = {"type": "fixed", "name": "Hash", "size": 2}
_MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
_ITEM = {"type": "record", "name": "Item", "fields": [_field("int", "n")]}
_DAY, _CLOCK = {"type": "int", "logicalType": "date"}, {"type": "int", "logicalType": "time-millis"}
_AT = {"type": "long", "logicalType": "timestamp-millis"}
_MICROS = {"type": "long", "logicalType": "timestamp-micros"}
_UUID = {"type": "string", "logicalType": "uuid"}
#: Schemas as people write them, and values as fastavro takes them where logical types are numbers and bytes.
BY_HAND: list[tuple[Any, Any]] = [
    *((kind, value) for kind, value in (("int", -5), ("long", 2**40), ("float", 1.5), ("double", 0.1))),
    *((kind, value) for kind, value in (("boolean", True), ("string", "é"), ("bytes", b"\0\xff"))),
    (_DAY, 19000),
    (_CLOCK, 1234),
    (_AT, 1700000000123),
    (_MICROS, 1700000000123456),
    (_UUID, "7f0c0b0e-0000-4000-8000-000000000000"),
    (_MONEY, b"\xff\x6a"),
    (_COLOUR, "BLUE"),
    (_HASH, b"ab"),
    ({"type": "fixed", "name": "Sum", "size": 3, "logicalType": "decimal", "precision": 6, "scale": 1}, b"\0\1\2"),
    ({"type": "array", "items": ["null", "int"]}, [1, None]),
    ({"type": "map", "values": "long"}, {"a": 1}),
    (["null", "string"], "x"),
    (["string", "null"], "x"),
    (["null", _MONEY], b"\1"),
    (_record(_field(["null", "int"], default=None)), {"a": None}),
    (_record(_field(["int", "null"], default=7)), {"a": None}),
    (_record(_field("int", default=7, doc="of a")), {"a": 1}),
    (_record(_field("bytes", default="\u00ff\u0001")), {"a": b"x"}),
    (_record(_field(_MONEY, default="\u0001")), {"a": b"\2"}),
    (_record(_field({"type": "array", "items": "int"}, default=[1])), {"a": []}),
    (_record(_field({"type": "map", "values": "int"}, default={"k": 1})), {"a": {}}),
    (_record(_field(_ITEM, default={"n": 3}), _field("shop.Item", "b")), {"a": {"n": 1}, "b": {"n": 2}}),
    (_record(_field(["null", _ITEM]), _field(_COLOUR, "b", default="RED")), {"a": {"n": 1}, "b": "BLUE"}),
    (_record(_field(["null", _COLOUR]), _field(["null", _HASH], "b")), {"a": "RED", "b": None}),
    (_record(_field("double", default=1), _field("float", "b", default=2.5)), {"a": 1.0, "b": 1.0}),
    (_record(doc="of a row", **{"connect.version": 3, "connect.doc": "other"}), {}),
    (_record(_field({"type": "string", "avro.java.string": "String"})), {"a": "x"}),
    (_record(_field("int", aliases=["z"]), name="a.b.Row", namespace="ignored"), {"a": 1}),
]


def _cases() -> Iterator[dict[str, Any]]:
    for one in json.loads(WRITTEN.read_text()):
        if one["options"] == {} and "bytes" in one["answer"]:
            yield {"schema": one["answer"]["schema"], "bytes": one["answer"]["bytes"]}
    for schema, value in BY_HAND:
        text = json.dumps(schema)
        yield {"schema": text, "bytes": base64.b64encode(_bytes(text, value)).decode()}


def _bytes(text: str, value: Any) -> bytes:
    import fastavro

    schema = parsed(text)
    if is_bytes(schema):  # they stand alone, without their length
        return bytes(value)
    out = BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


if __name__ == "__main__":
    ask("AvroReads.java", list(_cases()), ANSWERS)
