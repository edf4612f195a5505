"""Files of JSON lines, CSV and Parquet from the values of records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from semel.connect.connectors.sinks.refused_records import RecordRefused
from semel.serdes.columns import is_json, whole
from semel.serdes.json import write_json

__all__ = ["FORMATS", "FileFormat", "fields_of"]

_CSV = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
)


class FileFormat(NamedTuple):
    """A format: the end of its names, and what makes a file of one column of values, with its field and a codec."""

    extension: str
    data: Callable[[Any, pa.Field, str], bytes]


def _json_lines(column: Any, field: pa.Field, _: str) -> bytes:
    if is_json(column.type):  # as it came, without its line ends
        texts = (json.loads(one) for one in column.storage.to_pylist())
        lines = [json.dumps(one, separators=(",", ":"), ensure_ascii=False).encode() for one in texts]
    else:
        lines = write_json(column, field, with_schema=False).to_pylist()
    return b"".join(line + b"\n" for line in lines)


def _csv(column: Any, field: pa.Field, _: str) -> bytes:
    from pyarrow import csv

    table = fields_of(column, field)
    for number, one in enumerate(table.schema):
        if pa.types.is_decimal(one.type):
            table = table.set_column(number, one.name, table[number].cast(pa.string()))
        elif not any(matches(one.type) for matches in _CSV):
            raise RecordRefused(f"CSV has no cell for field {one.name} of type {one.type!s:.100}", "Use JsonFormat.")
    out = pa.BufferOutputStream()
    csv.write_csv(table, out)
    return bytes(out.getvalue())


def _parquet(column: Any, field: pa.Field, codec: str) -> bytes:
    from pyarrow import parquet

    out = pa.BufferOutputStream()
    parquet.write_table(fields_of(column, field), out, compression=codec)
    return bytes(out.getvalue())


def fields_of(column: Any, field: pa.Field) -> pa.Table:
    """Return the fields of structs as columns."""
    if not pa.types.is_struct(field.type) or not field.type.num_fields:
        raise RecordRefused(
            "its value has no fields",
            "Give the connector a value.converter that reads schemas, as JsonConverter with"
            " value.converter.schemas.enable=true or those of a schema registry. FileSink's JsonFormat takes all.",
        )
    column = whole(column)
    return pa.table([column.field(number) for number in range(field.type.num_fields)], schema=pa.schema(field.type))


_ALL = {
    "Json": FileFormat("json", _json_lines),
    "Parquet": FileFormat("parquet", _parquet),
    "Csv": FileFormat("csv", _csv),
}
#: By the names of the S3 sink connector, whole and short.
FORMATS: Mapping[str, FileFormat] = MappingProxyType(
    {f"{name}Format": made for name, made in _ALL.items()}
    | {f"io.confluent.connect.s3.format.{name.lower()}.{name}Format": _ALL[name] for name in ("Json", "Parquet")}
)
