"""Values as columns of Arrow: neighbours of one schema are one column.

A value without a schema is JSON's text, of Arrow's type ``json``: nothing is inferred from its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from semel.serdes.json_value import json_text
from semel.serdes.schemas.arrow import array_of, arrow_field
from semel.serdes.schemas.schema import Schema

__all__ = ["Run", "run_of", "runs_of"]

#: Neighbours of one schema: its field, which is called as the part of the record, and the column.
Run = tuple[pa.Field, Any]


def runs_of(values: Iterable[tuple[Schema | None, Any] | None], name: str) -> list[Run]:
    """Return columns of values that are checked by their schemas. None is a tombstone, without a schema."""
    runs: list[tuple[Schema | None, list[Any]]] = []
    waiting = 0  # nulls before the first schema
    for one in values:
        if one is None:
            if runs:
                runs[-1][1].append(None)
            else:
                waiting += 1
            continue
        schema, value = one
        if not runs or (runs[-1][0] is not schema and runs[-1][0] != schema):
            runs.append((schema, [None] * waiting))
            waiting = 0
        runs[-1][1].append(value)
    if waiting:
        return [(pa.field(name, pa.null()), pa.nulls(waiting))]
    return [run_of(name, schema, values) for schema, values in runs]


def run_of(name: str, schema: Schema | None, values: Sequence[Any]) -> Run:
    """Return one column of values that are checked by their schema, or have none."""
    if schema is None:
        texts = [None if one is None else json_text(one) for one in values]
        made = pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))
        return pa.field(name, made.type), made
    field = arrow_field(name, schema)
    return field.with_nullable(True) if None in values else field, array_of(values, field)
