"""JSON as Kafka's ``JsonConverter`` reads it, with or without a schema in each value.

Neighbours with the same schema are one column. A value without a schema stays JSON's text, so that nothing is inferred
from others: Arrow's type ``json`` holds it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from semel.serdes.schemas.arrow import array_of, arrow_field
from semel.serdes.schemas.json_form import parse_schema, parse_value
from semel.serdes.schemas.schema import Schema
from semel.serdes.schemas.struct import checked
from semel.serdes.unfit import Mismatch, Unfit

__all__ = ["Run", "read_envelopes", "read_plain"]

#: Neighbours of one schema: its field, which is called as the part of the record, and the column.
Run = tuple[pa.Field, Any]


def read_plain(column: Any, name: str) -> list[Run]:
    """Return JSON without schemas. Raise :class:`Unfit` for what is no JSON."""
    for one in column.to_pylist():
        if one is not None:
            _json(one)
    made = pa.ExtensionArray.from_storage(pa.json_(), column.cast(pa.string()))
    return [(pa.field(name, made.type), made)]


def read_envelopes(column: Any, name: str) -> list[Run]:
    """Return values that bring their schema: ``{"schema":…,"payload":…}``. A null is a tombstone.

    Raises :class:`Unfit` for what is no such value.
    """
    runs: list[tuple[Schema | None, list[Any]]] = []
    waiting = 0  # nulls before the first schema
    for one in column.to_pylist():
        if one is None:
            if runs:
                runs[-1][1].append(None)
            else:
                waiting += 1
            continue
        schema, value = _value(one)
        if not runs or runs[-1][0] != schema:
            runs.append((schema, [None] * waiting))
            waiting = 0
        runs[-1][1].append(value)
    if waiting:
        return [(pa.field(name, pa.null()), pa.nulls(waiting))]
    return [_run(name, schema, values) for schema, values in runs]


def _run(name: str, schema: Schema | None, values: Sequence[Any]) -> Run:
    if schema is None:
        texts = [None if one is None else json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in values]
        made = pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))
        return pa.field(name, made.type), made
    field = arrow_field(name, schema)
    return field.with_nullable(True) if None in values else field, array_of(values, field)


def _value(data: bytes) -> tuple[Schema | None, Any]:
    envelope = _json(data)
    if not isinstance(envelope, Mapping) or envelope.keys() != {"schema", "payload"}:
        raise Unfit('it is not an object with exactly "schema" and "payload"')
    if envelope["schema"] is None:
        return None, envelope["payload"]
    try:
        schema = _schema(json.dumps(envelope["schema"]))
        return schema, checked(schema, parse_value(schema, envelope["payload"]))
    except Mismatch:
        raise
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise Unfit(f"it does not fit its schema ({type(error).__name__}: {error!s:.200})") from None


@lru_cache(1024)
def _schema(text: str) -> Schema:
    made = parse_schema(json.loads(text))
    assert made is not None
    return made


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except RecursionError:
        raise Unfit("it is nested too deeply") from None
    except ValueError as error:
        raise Unfit(f"it is no JSON ({error!s:.200})") from None
