"""Ask Kafka Connect's own classes about the cases, and keep the answers."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
from pathlib import Path
from typing import Any

from semel.sandbox import find_java
from tests.connect.oracle.corpus import CHAINS as CHAINS_OF_CORPUS
from tests.connect.oracle.corpus import corpus
from tests.connect.support.kafka_connect import jars

HERE = Path(__file__).parent
_KAFKA = "org.apache.kafka.connect."
_JSON = f"{_KAFKA}json.JsonConverter"
_NUMBERS = ("Long", "Integer", "Short", "Double", "Float", "Boolean", "ByteArray")
CONVERTERS = [
    f"{_KAFKA}storage.StringConverter",
    _JSON,
    f"{_JSON} schemaless",
    *(f"{_KAFKA}converters.{kind}Converter" for kind in _NUMBERS),
    f"{_JSON} numeric",
    f"{_JSON} nulls",
]
#: The type of a value, and values of it.
VALUES: dict[str, list[Any]] = {
    "string": ["foo", "", 'a"\\\n\u00e9\U0001f600', None],
    "int64": [0, -1, 2**63 - 1, -(2**63), None],
    "int32": [1, -(2**31)],
    "int16": [7, -(2**15)],
    "int8": [-128],
    "boolean": [True, False],
    "double": [
        *(0.0, 1.0, -1.5, 0.001, 0.00099, 1e7, 9999999.0, 12345678.5, 1e10, 1.25e-7, 123456.789, 1e16, 1.5e22, 1e300),
        *("NaN", "Infinity", "-Infinity", "-0.0"),
    ],
    "float": [0.5, 1e10, 0.1, 16777216.0, "NaN"],
    "bytes": ["Zm9v"],
}
_FIELDS = {
    "id": {"type": "int64", "optional": False},
    "name": {"type": "string", "optional": True},
    "price": {"type": "double", "optional": True},
    "tags": {"type": "array", "items": {"type": "string", "optional": True}, "optional": True},
    "at": {"type": "int64", "name": f"{_KAFKA}data.Timestamp", "version": 1, "optional": True},
    "day": {"type": "int32", "name": f"{_KAFKA}data.Date", "version": 1, "optional": True},
    "hour": {"type": "int32", "name": f"{_KAFKA}data.Time", "version": 1, "optional": True},
}
_ROW = {"id": 1, "name": "x", "price": 1e10, "tags": ["a", None], "at": 86_400_123, "day": 3, "hour": 3_600_000}
_HOIST = {"type": "HoistField$Value", "field": "line"}
_ROUTER = "RegexRouter"
_LITERALS = (
    "shop",
    "1",
    "007",
    "1.50",
    "true",
    "TRUE",
    "null",
    "[1,2]",
    "{a:1}",
    "2020-01-01",
    '"q"',
    "1e3",
    "-5",
    " x ",
)
CHAINS: list[tuple[Any, str, list[dict[str, Any]]]] = [
    ("foo", "t", [_HOIST]),
    (None, "t", [_HOIST]),
    (
        dict.fromkeys(_FIELDS) | {"id": 2},
        "t",
        [{"type": "TimestampConverter$Value", "field": "at", "target.type": "unix"}],
    ),
    ("foo", "t", [_HOIST, {"type": "InsertField$Value", "static.field": "from", "static.value": "shop"}]),
    ("foo", "t", [_HOIST, {"type": "InsertField$Value", "topic.field": "topic!"}]),
    (_ROW, "t", [{"type": "ValueToKey", "fields": "id"}]),
    (_ROW, "t", [{"type": "ValueToKey", "fields": "id"}, {"type": "ExtractField$Key", "field": "id"}]),
    (_ROW, "t", [{"type": "ReplaceField$Value", "include": "id,name", "renames": "id:number"}]),
    (_ROW, "t", [{"type": "ReplaceField$Value", "include": "id,name"}, {"type": "MaskField$Value", "fields": "name"}]),
    (dict.fromkeys(_FIELDS) | {"id": 2}, "t", [{"type": "MaskField$Value", "fields": "name,price"}]),
    *(
        ("foo", topic, [{"type": _ROUTER, "regex": regex, "replacement": replacement}])
        for topic, regex, replacement in [
            ("orders", "(or)(.*)", "new-$2-$1"),
            ("orders", "(.*)", r"\$1"),
            ("orders", "(.*)", r"a\-$1"),
            ("orders", "(.*)", r"$1_x\\y"),
            ("orders", "(or)(.*)", "$12"),
            ("orders", "(?<a>or)(.*)", "${a}-x"),
            ("ab", "a|ab", "X"),
            ("ab", "(a)?(.*)(c)?", "$3$1"),
            ("orders", "(.*)", "$3"),
            ("orders", "(.*)", "x$"),
            ("orders", "(.*)", "x\\"),
            ("orders", "(.*)", "${b}"),
            ("orders", "(.*)", "$x"),
        ]
    ),
    *(("foo", "t", [{"type": "InsertHeader", "header": "h", "value.literal": text}]) for text in _LITERALS),
]


def _given(payload: Any) -> dict[str, Any]:
    if not isinstance(payload, dict):
        return {"schema": {"type": "string", "optional": payload is None}, "payload": payload}
    fields = [{**kind, "field": name} for name, kind in _FIELDS.items()]
    return {"schema": {"type": "struct", "fields": fields, "optional": False}, "payload": payload}


def cases() -> dict[str, Any]:
    """Return what is asked."""
    plain = [
        {"given": {"schema": {"type": kind, "optional": value is None}, "payload": value}}
        for kind, values in VALUES.items()
        for value in values
    ]
    logical = [{"given": {"schema": _FIELDS[name], "payload": _ROW[name]}} for name in ("tags", "at", "day", "hour")]
    rows = [{"given": _given(row)} for row in (_ROW, dict.fromkeys(_FIELDS) | {"id": 2})]
    chains = [{"given": _given(payload), "topic": topic, "chain": chain} for payload, topic, chain in CHAINS]
    return {
        "converters": CONVERTERS,
        "values": [*plain, *logical, *rows],
        "transforms": chains,
        "line": {"text": "foo"},
    }


def main() -> None:
    """Write the answers beside this file."""
    answers = json.dumps(_asked(cases()), indent=1, ensure_ascii=True)
    (HERE / "answers.json").write_text(answers + "\n")
    asked = _asked({"converters": CONVERTERS, "values": corpus(), "transforms": [], "chains": CHAINS_OF_CORPUS})
    rows = ",\n".join(json.dumps(one, separators=(",", ":")) for one in asked["values"])
    (HERE / "corpus.json.xz").write_bytes(lzma.compress(f"[\n{rows}\n]\n".encode()))


def _asked(questions: dict[str, Any]) -> Any:
    command = [str(find_java()), "-Duser.timezone=UTC", "-cp", os.pathsep.join(map(str, jars()))]
    asked = subprocess.run(
        [*command, str(HERE / "Answers.java")],
        input=json.dumps(questions),
        text=True,
        check=True,
        stdout=subprocess.PIPE,
    )
    return json.loads(asked.stdout)


if __name__ == "__main__":
    main()
