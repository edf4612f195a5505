"""Avro's bytes as Python's values, by the schema that wrote them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any

from semel.extras import needs_extras
from semel.serdes.unfit import Mismatch, Unfit

__all__ = ["LOGICAL", "AvroReader", "is_bytes", "parsed", "parsed_types", "rewritten"]

#: The property of a type that keeps the name of its logical type, where fastavro is not to see it.
LOGICAL = "semel.logicalType"


def parsed(text: str, named: tuple[str, ...] = (), *, logical: bool = False) -> Any:
    """Return a schema as fastavro has it. Without ``logical`` types, numbers and bytes stay what they are.

    ``named`` are the schemas that it refers to, each after those that it needs itself. Raises :class:`Unfit` for a text
    that is no schema of Avro.
    """
    return parsed_types(text, named, logical=logical)[0]


@lru_cache(1024)
def parsed_types(text: str, named: tuple[str, ...], *, logical: bool = False) -> tuple[Any, Mapping[str, Any]]:
    """Return a schema as :func:`parsed` does, and all types that have a name."""
    with needs_extras("Avro", "registry"):
        from fastavro.schema import SchemaParseException, UnknownType
    try:
        names: dict[str, Any] = {}
        for one in named:
            _parse(one, names, logical=logical)
        return _parse(text, names, logical=logical), names
    except (ValueError, KeyError, TypeError, SchemaParseException, UnknownType) as error:
        raise Unfit(f"a schema of Avro cannot be read ({error!s:.200})") from None


def _parse(text: str, names: dict[str, Any], *, logical: bool) -> Any:
    import fastavro

    schema = json.loads(text)
    return fastavro.parse_schema(schema if logical else _physical(schema), names)


def _physical(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_physical(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {LOGICAL if name == "logicalType" else name: one for name, one in schema.items()}
    for name in ("type", "items", "values", "fields"):
        if name in kept:
            kept[name] = _physical(kept[name])
    return kept


class AvroReader:
    """Reads values that a schema wrote. Avro's logical types become Python's dates, times and decimals, if asked."""

    def __init__(self, text: str, named: tuple[str, ...] = (), *, logical: bool = True) -> None:
        self._parsed = parsed(text, named, logical=logical)
        import fastavro

        self._read = fastavro.schemaless_reader
        self._alone = is_bytes(self._parsed)

    def value(self, data: bytes) -> Any:
        """Return a value. Raise :class:`Unfit` for bytes that the schema did not write."""
        stream = BytesIO(_sized(data) if self._alone else data)
        try:
            value = self._read(stream, self._parsed, None)
        except (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
            raise Unfit(f"bytes are no value of their schema of Avro ({error!s:.200})") from None
        if stream.read(1):
            raise Unfit("bytes are left after the value of their schema of Avro")
        return value


def rewritten(data: bytes, written: str, wanted: str, named: tuple[str, ...] = ()) -> bytes:
    """Return a value of one schema as another one has it. Raise :class:`Mismatch` where that loses or lacks a field."""
    with needs_extras("Avro", "registry"):
        import fastavro
        from fastavro.read import SchemaResolutionError
    source, target = parsed(written), parsed(wanted, named)
    if is_bytes(source) or is_bytes(target):
        if is_bytes(source) and is_bytes(target) and _scale(source) == _scale(target):
            return data
        raise Mismatch("does not fit the registered schema: one of the two is other bytes")
    lost = _lost(source, target)
    if lost:
        raise Mismatch(f"has a field {lost!r:.60} that the registered schema lacks")
    try:
        value: Any = fastavro.schemaless_reader(BytesIO(data), source, target)
        out = BytesIO()
        fastavro.schemaless_writer(out, target, value)
    except (SchemaResolutionError, ValueError, TypeError) as error:
        raise Mismatch(f"does not fit the registered schema ({error!s:.200})") from None
    return out.getvalue()


def is_bytes(schema: Any) -> bool:
    """Return whether a schema is bytes or a decimal alone: Confluent writes them without their length."""
    return bool((schema.get("type") if isinstance(schema, dict) else schema) == "bytes")


def _scale(schema: Any) -> Any:
    return schema.get("scale") if isinstance(schema, dict) else None


def _sized(data: bytes) -> bytes:
    """Return bytes with their length before them, as Avro has them elsewhere."""
    out = BytesIO()
    import fastavro

    fastavro.schemaless_writer(out, "bytes", data)
    return out.getvalue()


def _lost(source: Any, target: Any) -> str | None:
    """Return the first field that the target lacks, or None."""
    if isinstance(source, list) or isinstance(target, list):
        branches = [one for one in (source if isinstance(source, list) else [source]) if one != "null"]
        others = [one for one in (target if isinstance(target, list) else [target]) if one != "null"]
        return _lost(branches[0], others[0]) if len(branches) == len(others) == 1 else None
    if not (isinstance(source, dict) and isinstance(target, dict)):
        return None
    if source.get("type") == target.get("type") == "record":
        fields = {name: one for one in target["fields"] for name in (one["name"], *one.get("aliases", ()))}
        for one in source["fields"]:
            if one["name"] not in fields:
                return str(one["name"])
            lost = _lost(one["type"], fields[one["name"]]["type"])
            if lost:
                return lost
    for inner in ("items", "values"):
        if inner in source and inner in target:
            return _lost(source[inner], target[inner])
    return None
