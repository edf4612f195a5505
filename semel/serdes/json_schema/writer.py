"""A JSON Schema and what writes values by it, one by one or a column at a time."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from semel.serdes.json import write_json
from semel.serdes.json_schema.schema import JsonSchemaOptions, json_schema
from semel.serdes.json_value import json_value
from semel.serdes.schemas.schema import Schema
from semel.serdes.text import encoded

__all__ = ["JsonSchemaWriter"]


class JsonSchemaWriter:
    """Writes values of one schema. ``text`` is the JSON Schema."""

    def __init__(self, schema: Schema | None, options: JsonSchemaOptions) -> None:
        self.text = json.dumps(json_schema(schema, options), ensure_ascii=False, separators=(",", ":"))
        assert schema is not None
        self._schema, self._form = schema, options.form
        #: The title of the schema.
        self.name = schema.name or ""

    def value(self, value: Any) -> bytes | None:
        """Return the bytes of a checked value; None for a null."""
        return None if value is None else encoded(json_value(self._schema, value, self._form))

    def column(self, column: Any, field: pa.Field) -> Any:
        """Return the bytes of each value of a column."""
        return write_json(column, field, with_schema=False, form=self._form).cast(pa.large_binary())
