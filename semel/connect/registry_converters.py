"""Converters with a registry of schemas: Confluent's, by the names of their classes, with their options.

A sink reads by them: each value names its schema. A source writes: a schema is registered, or found, before a record of
it is converted. What the registry says is asked once for each topic and schema.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from semel.connect.converters import ConfiguredConverter
from semel.errors import ConfigError
from semel.serdes.avro.connect_reader import ConnectReader
from semel.serdes.avro.options import AvroOptions
from semel.serdes.avro.reader import rewritten
from semel.serdes.avro.writer import AvroWriter
from semel.serdes.columns import whole
from semel.serdes.json_schema.reader import JsonSchemaReader
from semel.serdes.json_schema.schema import JsonSchemaOptions
from semel.serdes.json_schema.writer import JsonSchemaWriter
from semel.serdes.protobuf.reader import ProtobufReader
from semel.serdes.protobuf.schema import ProtobufOptions
from semel.serdes.protobuf.writer import ProtobufWriter
from semel.serdes.registry.client import Registry, SchemaText
from semel.serdes.registry.framing import HEADER_SIZE, header, schema_id
from semel.serdes.registry.settings import RegistrySettings, read_registry
from semel.serdes.schemas.arrow import schema_of
from semel.serdes.schemas.runs import Run, runs_of
from semel.serdes.schemas.schema import Schema
from semel.serdes.unfit import Mismatch, Unfit
from semel.settings.fields import read_fields, table_of

__all__ = ["REGISTRY_CONVERTERS", "registry_converter"]

_NOTHING = "Nothing of this poll is visible."
#: How many schemas are kept for each converter.
_KEPT = 1000
_REFUSED_S = 10.0


class SchemaWriter(Protocol):
    """Writes values of one schema, which is ``text`` in the registry."""

    text: str
    #: The name of the record.
    name: str

    def value(self, value: Any) -> bytes | None:
        """Return the bytes of a checked value."""

    def column(self, column: Any, field: pa.Field) -> Any:
        """Return the bytes of each value of a column."""


class SchemaReader(Protocol):
    """Reads values of one schema of the registry."""

    def read(self, data: bytes) -> tuple[Schema | None, Any]:
        """Return a value that is checked, and its schema. Raise :class:`Unfit` for bytes that are no such value."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format of values: its converter, and what writes a schema with options."""

    converter: str
    form: str
    kind: str
    options: type
    writer: Callable[[Schema | None, Any], SchemaWriter]
    #: Returns a value of the writer's schema as the registered one has it.
    rewrite: Callable[[bytes, Any, str, tuple[str, ...]], bytes]
    #: Makes what reads values of a schema, with the schemas that it names.
    reader: Callable[[str, Mapping[str, str], Any], SchemaReader]


def _rewritten(data: bytes, writer: AvroWriter, wanted: str, named: tuple[str, ...]) -> bytes:
    return rewritten(data, writer.spaced, wanted, named)


def _as_it_is(data: bytes, _writer: object, _wanted: str, _named: tuple[str, ...]) -> bytes:
    """Return a value as it is: JSON does not depend on its schema."""
    return data


def _avro_reader(text: str, named: Mapping[str, str], _: object) -> ConnectReader:
    return ConnectReader(text, tuple(named.values()))


_AVRO = Format("AvroConverter", "Avro", "AVRO", AvroOptions, AvroWriter, _rewritten, _avro_reader)
_JSON_SCHEMA = Format(
    "JsonSchemaConverter", "JSON Schema", "JSON", JsonSchemaOptions, JsonSchemaWriter, _as_it_is, JsonSchemaReader
)


def _refused(_data: bytes, _writer: object, _wanted: str, _named: tuple[str, ...]) -> bytes:
    raise Mismatch("has another schema than the registered one, and ProtobufConverter writes its own here")


_PROTOBUF = Format(
    "ProtobufConverter", "Protobuf", "PROTOBUF", ProtobufOptions, ProtobufWriter, _refused, ProtobufReader
)
#: By Confluent's names, whole and short.
REGISTRY_CONVERTERS: Mapping[str, Format] = MappingProxyType(
    {
        **dict.fromkeys(("AvroConverter", "Avro", "io.confluent.connect.avro.AvroConverter"), _AVRO),
        **dict.fromkeys(
            ("JsonSchemaConverter", "JsonSchema", "io.confluent.connect.json.JsonSchemaConverter"), _JSON_SCHEMA
        ),
        **dict.fromkeys(
            ("ProtobufConverter", "Protobuf", "io.confluent.connect.protobuf.ProtobufConverter"), _PROTOBUF
        ),
    }
)


def registry_converter(name: str, options: Mapping[str, str], setting: str) -> ConfiguredConverter:
    """Return the converter with these options. Raise an error for one that is wrong, or not there."""
    made = REGISTRY_CONVERTERS[name]
    prefix, own = f"{setting}.", table_of(made.options)
    settings = read_registry(options, prefix, own)
    chosen = made.options(**read_fields(made.options, options, prefix=prefix))
    parts = _Parts(made, settings, chosen, is_key=setting.startswith("key."))
    readers = _Readers(made.kind, made.reader, chosen, parts.registry)
    return ConfiguredConverter(made.converter, made.form, parts.column, parts.value, readers.read)


@dataclass(frozen=True, slots=True)
class _Part:
    """What writes the values of one topic and schema. ``rewrite`` makes the registered schema's of them."""

    header: bytes
    writer: SchemaWriter
    rewrite: Callable[[bytes], bytes] | None


class _Parts:
    """Keys, or values, of a connector's records."""

    def __init__(self, made: Format, settings: RegistrySettings, options: Any, *, is_key: bool) -> None:
        self._format, self._options, self._is_key = made, options, is_key
        self._strategy = settings.key_strategy if is_key else settings.value_strategy
        self.registry = Registry(settings, _NOTHING)
        #: What has the newest schema of its subject is asked for again after this time.
        self._newest_s = settings.latest_ttl_s if settings.use_latest and settings.latest_ttl_s >= 0 else math.inf
        self._parts: dict[tuple[str, Schema | None], tuple[_Part | ConfigError, float]] = {}

    def value(self, schema: Schema | None, value: Any, topic: str) -> bytes | None:
        """Return the bytes of a checked value."""
        if value is None:
            if schema is not None and not schema.optional:
                raise Mismatch("is null, and its schema is not optional")
            return None
        part = self._part(topic, schema)
        made = part.writer.value(value)
        return None if made is None else part.header + (part.rewrite(made) if part.rewrite else made)

    def column(self, column: Any, field: pa.Field, topic: str) -> Any:
        """Return the bytes of each value of a column."""
        column = whole(column)
        if column.null_count == len(column):
            return pa.nulls(len(column), pa.binary())
        part = self._part(topic, schema_of(field.with_type(column.type)))
        made = part.writer.column(column, field)
        if part.rewrite is not None:
            made = pa.array([None if one is None else part.rewrite(one) for one in made.to_pylist()], made.type)
        return pc.binary_join_element_wise(pa.scalar(part.header, made.type), made, pa.scalar(b"", made.type)).cast(
            pa.binary()
        )

    def _part(self, topic: str, schema: Schema | None) -> _Part:
        """Return what writes a schema. A refusal is remembered for a while: many records may have the schema."""
        found, until = self._parts.get((topic, schema), (None, 0.0))
        if found is None or time.monotonic() >= until:
            if len(self._parts) >= _KEPT:
                self._parts.clear()
            lasts = self._newest_s
            try:
                found = self._registered(topic, schema)
            except ConfigError as refused:
                found, lasts = refused, _REFUSED_S
            self._parts[topic, schema] = found, time.monotonic() + lasts
        if isinstance(found, ConfigError):
            raise type(found)(found.message, tag=found.tag)
        return found

    def _registered(self, topic: str, schema: Schema | None) -> _Part:
        writer = self._format.writer(schema, self._options)
        text = SchemaText(self._format.kind, writer.text)
        if not writer.name and not topic:
            raise Mismatch("has a schema without a name")
        registered = self.registry.identify(self._strategy(topic, self._is_key, writer.name), text)
        if registered.schema == text:
            return _Part(header(registered.id), writer, None)
        if registered.schema.kind != self._format.kind:
            raise Mismatch(f"has a registered schema of the kind {registered.schema.kind}")
        wanted = registered.schema.text
        named = tuple(one.text for one in self.registry.referenced(registered.schema.references).values())
        rewrite = self._format.rewrite
        return _Part(header(registered.id), writer, lambda data: rewrite(data, writer, wanted, named))


class _Readers:
    """Reads keys, or values, of a sink's records: each names its schema."""

    def __init__(
        self,
        kind: str,
        reader: Callable[[str, Mapping[str, str], Any], SchemaReader],
        options: Any,
        registry: Registry,
    ) -> None:
        self._kind, self._make, self._options, self._registry = kind, reader, options, registry
        #: By the bytes before a value. A refusal is kept: many records may have the schema.
        self._readers: dict[bytes, SchemaReader | Unfit] = {}

    def read(self, column: Any, part: str, _: str) -> list[Run]:
        """Return columns of values, and null for a tombstone. Raise :class:`Unfit` for what is no such value."""
        return runs_of((None if one is None else self._value(one) for one in column.to_pylist()), part)

    def _value(self, data: bytes) -> tuple[Schema | None, Any]:
        reader = self._readers.get(data[:HEADER_SIZE])
        if reader is None:
            number = schema_id(data)
            try:
                reader = self._reader(number)
            except Unfit as refused:
                reader = refused
            self._readers[data[:HEADER_SIZE]] = reader
        if isinstance(reader, Unfit):
            raise Unfit(*reader.args)
        return reader.read(data[HEADER_SIZE:])

    def _reader(self, number: int) -> SchemaReader:
        text = self._registry.text(number)
        if text.kind != self._kind:
            raise Unfit(f"its schema {number} is of the kind {text.kind}, and not {self._kind}")
        named = {name: one.text for name, one in self._registry.referenced(text.references).items()}
        return self._make(text.text, named, self._options)
