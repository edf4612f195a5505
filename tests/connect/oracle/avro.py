"""Ask Apicurio's ``AvroData``, which is Confluent's of an earlier version, about the corpus, and keep the answers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from semel.sandbox import find_java
from semel.sandbox.ivy import kept
from semel.sandbox.jars import cache_directory
from tests.connect.oracle.corpus import corpus

__all__ = ["ANSWERS", "ask"]

_VERSION = "2.6.13.Final"
ANSWERS = Path(__file__).parent / "avro.json"
_ENUM = "io.confluent.connect.avro.Enum"
_DATA = "org.apache.kafka.connect.data."


def _cases() -> Iterator[dict[str, Any]]:
    for one in corpus():
        for options in ({}, {"connect.meta.data": "false"}):
            yield {"given": one["given"], "options": options}
    yield from ({"given": one, "options": {"enhanced.avro.schema.support": "true"}} for one in _enhanced())
    yield from ({"given": one, "options": {}} for one in (*_enhanced(), *_names()))


def _enhanced() -> Iterator[dict[str, Any]]:
    colour = {
        "type": "string",
        "optional": False,
        "name": "shop.Colour",
        "parameters": {_ENUM: "shop.Colour", f"{_ENUM}.RED": "RED", f"{_ENUM}.BLUE": "BLUE"},
    }
    yield {"schema": colour, "payload": "RED"}
    fields = [{**colour, "field": "a"}, {**colour, "optional": True, "field": "b"}]
    for b in ("BLUE", None):
        row = {"type": "struct", "name": "shop.Row", "optional": False, "fields": fields}
        yield {"schema": row, "payload": {"a": "RED", "b": b}}


def _struct(name: str | None, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    made = {"type": "struct", "optional": False, "fields": [{**kind, "field": key} for key, kind in fields.items()]}
    return {**made, **({} if name is None else {"name": name}), **more}


def _names() -> Iterator[dict[str, Any]]:
    """Names that are used twice, without a namespace, and of other namespaces; defaults of each kind."""
    number = {"type": "int32", "optional": False}
    inner = _struct("shop.Item", {"n": number})
    for second in (inner, {**inner, "optional": True}):
        yield {"schema": _struct("shop.Row", {"a": inner, "b": second}), "payload": {"a": {"n": 1}, "b": {"n": 2}}}
    unnamed = _struct(None, {"n": number})
    yield {"schema": _struct(None, {"a": unnamed, "b": unnamed}), "payload": {"a": {"n": 1}, "b": {"n": 2}}}
    other = _struct(None, {"m": number})
    yield {"schema": _struct(None, {"a": unnamed, "b": other}), "payload": {"a": {"n": 1}, "b": {"m": 2}}}
    for name in ("Item", "other.place.Item"):
        made = _struct("shop.Row", {"a": _struct(name, {"n": number}), "b": _struct(name, {"n": number})})
        yield {"schema": made, "payload": {"a": {"n": 1}, "b": {"n": 2}}}
    listed = {"type": "array", "items": inner, "optional": False}
    keyed = {"type": "map", "keys": {"type": "string", "optional": False}, "values": inner, "optional": True}
    made = _struct("shop.Row", {"a": inner, "list": listed, "map": keyed})
    yield {"schema": made, "payload": {"a": {"n": 1}, "list": [{"n": 2}], "map": {"k": {"n": 3}}}}
    defaults: dict[str, tuple[dict[str, Any], Any]] = {
        "float": ({"type": "float"}, 1e10),
        "double": ({"type": "double"}, 0.1),
        "bytes": ({"type": "bytes"}, "/wA="),
        "array": ({"type": "array", "items": number}, [1, 2]),
        "map": ({"type": "map", "keys": {"type": "string", "optional": False}, "values": number}, {"a": 1}),
        "entries": ({"type": "map", "keys": number, "values": number}, [[1, 2]]),
        "decimal": (
            {"type": "bytes", "name": f"{_DATA}Decimal", "version": 1, "parameters": {"scale": "2"}},
            "AJY=",
        ),
        "date": ({"type": "int32", "name": f"{_DATA}Date", "version": 1}, 3),
        "int8": ({"type": "int8"}, 3),
        "text": ({"type": "string"}, 'a"\u00e9\u2028\U0001f600\x01'),
    }
    for optional in (False, True):
        for name, (kind, default) in defaults.items():
            field = {**kind, "optional": optional, "default": default}
            yield {"schema": _struct("shop.Row", {name: field}), "payload": {name: None if optional else default}}
    yield from _choices(inner)
    for parameters in ({"connect.decimal.precision": "9", "scale": "2"}, {"scale": "70"}):
        decimal = {"type": "bytes", "name": f"{_DATA}Decimal", "version": 1, "parameters": parameters}
        yield {"schema": {**decimal, "optional": False}, "payload": "AJY="}


def _choices(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A struct that is a choice, alone and in a field; bytes of a fixed size."""
    parts: dict[str, Any] = {"int": {"type": "int32"}, "string": {"type": "string"}, "Item": item}
    choice = _struct(
        "io.confluent.connect.avro.Union", {name: {**kind, "optional": True} for name, kind in parts.items()}
    )
    for name, value in (("int", 5), ("string", "x"), ("Item", {"n": 7})):
        payload = dict.fromkeys(parts) | {name: value}
        yield {"schema": choice, "payload": payload}
        row = _struct("shop.Row", {"a": choice, "b": {**choice, "optional": True}})
        yield {"schema": row, "payload": {"a": payload, "b": None}}
        yield {"schema": row, "payload": {"a": payload, "b": payload}}
    fixed = {"type": "bytes", "name": "shop.Hash", "parameters": {"connect.fixed.size": "3"}}
    for optional in (False, True):
        row = _struct("shop.Row", {"a": {**fixed, "optional": optional}})
        yield {"schema": row, "payload": {"a": "AQID"}}


def ask(program: str, cases: list[dict[str, Any]], answers: Path) -> None:
    """Write what a program answers."""
    home = cache_directory() / "apicurio-converter" / _VERSION
    jars = kept(
        home,
        [("io.apicurio", "apicurio-registry-utils-converter", _VERSION)],
        f"Apicurio's converter {_VERSION}",
        progress=True,
        whole=True,
    )
    file = Path(__file__).parent / program
    command = [str(find_java()), "-Duser.timezone=UTC", "-cp", os.pathsep.join(map(str, jars)), str(file)]
    answered = subprocess.run(command, input=json.dumps(cases), text=True, check=True, stdout=subprocess.PIPE)
    rows = ",\n".join(json.dumps(one, separators=(",", ":")) for one in json.loads(answered.stdout))
    answers.write_text(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    ask("AvroAnswers.java", list(_cases()), ANSWERS)
