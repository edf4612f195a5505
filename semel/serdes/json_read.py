"""JSON as Kafka's ``JsonConverter`` reads it, with or without a schema in each value.

Neighbours with the same schema are one column. A value without a schema stays JSON's text, so that nothing is inferred
from others: Arrow's type ``json`` holds it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from semel.serdes.schemas.json_form import parse_schema, parse_value
from semel.serdes.schemas.runs import Run, runs_of
from semel.serdes.schemas.schema import Schema
from semel.serdes.schemas.struct import checked
from semel.serdes.unfit import Mismatch, Unfit

__all__ = ["read_envelopes", "read_plain"]


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
    return runs_of((None if one is None else _value(one) for one in column.to_pylist()), name)


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
