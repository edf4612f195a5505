"""A schema of Avro and what writes values by it, one by one or a column at a time."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import pyarrow as pa

from semel.extras import needs_extras
from semel.serdes.avro.column import avro_column, can_write
from semel.serdes.avro.nodes import Named, Plain, Union, text_of
from semel.serdes.avro.options import AvroOptions
from semel.serdes.avro.reader import parsed
from semel.serdes.avro.schema import avro_schema
from semel.serdes.avro.value import datum_writer, loose_datum
from semel.serdes.schemas.schema import Schema
from semel.serdes.unfit import Mismatch

__all__ = ["AvroWriter"]


class AvroWriter:
    """Writes values of one schema. ``text`` is Avro's schema.

    Raises :class:`Mismatch` for a schema that Avro cannot say.
    """

    def __init__(self, schema: Schema | None, options: AvroOptions) -> None:
        with needs_extras("Avro", "registry"):
            import fastavro
        self._write, self._schema, self._options = fastavro.schemaless_writer, schema, options
        node = avro_schema(schema, options)
        self.text = text_of(node)
        #: The name of the record, or of the type.
        self.name = node.full_name if isinstance(node, Named) else "" if isinstance(node, Union) else node.type
        #: The same schema, with a namespace for each name.
        self.spaced = text_of(node, "semel.nameless")
        self._parsed = parsed(self.spaced)
        self._datum: Callable[[Any], Any] = loose_datum if schema is None else datum_writer(schema, options)
        self._as_it_is = isinstance(node, Plain) and node.type == "bytes"

    def value(self, value: Any) -> bytes | None:
        """Return the bytes of a checked value; None for a null."""
        if value is None:
            return None
        datum = self._datum(value)
        if self._as_it_is:
            return bytes(datum)
        out = BytesIO()
        self._write(out, self._parsed, datum)
        return out.getvalue()

    def column(self, column: Any, field: pa.Field) -> Any:
        """Return the bytes of each value of a column."""
        assert self._schema is not None
        if not can_write(self._schema, self._options):
            raise Mismatch(
                "is in a batch, and has a choice, an enumeration or fixed bytes, which a list of records can have"
            )
        return avro_column(column, field, self._schema, self._options)
