"""Serdes with a schema registry, for single values: Avro, JSON with a schema, and Protobuf, in Confluent's wire format.

Reading needs the address of a registry alone: each value names its schema. Writing needs a schema and its subject. All
of Confluent's settings of a registry may be given.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from typing import Any

from semel.errors import ConfigError
from semel.extras import needs_extras
from semel.serdes.avro.reader import AvroReader, is_bytes, parsed
from semel.serdes.registry.client import Reference, Registry, SchemaText
from semel.serdes.registry.framing import HEADER_SIZE, header, message_path, schema_id, written_path
from semel.serdes.registry.settings import RegistrySettings, read_registry
from semel.serdes.serde import ValueSerde
from semel.serdes.unfit import Unfit

__all__ = ["avro", "json_schema", "protobuf"]

_NOTHING = "Nothing of this batch is visible."
#: Files that each registry has.
_KNOWN_FILES = ("google/", "confluent/")


def avro(registry: Mapping[str, str] | str, schema: str = "", subject: str = "") -> ValueSerde:
    """Return a serde for Avro: values are those of fastavro, with Python's dates, times and decimals.

    ``registry`` is its address, or its settings by Confluent's names.
    """
    made = _AvroSerde(_settings(registry), SchemaText("AVRO", schema), subject)
    return ValueSerde("avro", made.write, made.read)


def json_schema(registry: Mapping[str, str] | str, schema: str = "", subject: str = "") -> ValueSerde:
    """Return a serde for JSON whose schema is in a registry. Values are not checked against the schema."""
    made = _JsonSerde(_settings(registry), SchemaText("JSON", schema), subject)
    return ValueSerde("json_schema", made.write, made.read)


def protobuf(registry: Mapping[str, str] | str, message: Any, subject: str = "") -> ValueSerde:
    """Return a serde for messages of one class, which Protobuf's compiler made."""
    with needs_extras("Protobuf", "registry"):
        import google.protobuf  # noqa: F401
    made = _ProtobufSerde(_settings(registry), SchemaText("PROTOBUF", ""), subject, message)
    return ValueSerde("protobuf", made.write, made.read)


def _settings(registry: Mapping[str, str] | str) -> RegistrySettings:
    options = {"schema.registry.url": registry} if isinstance(registry, str) else registry
    made = read_registry(options, "")
    _registry(made)
    return made


@lru_cache(64)
def _registry(settings: RegistrySettings) -> Registry:
    """Return the one client of a process for these settings: serdes travel without it."""
    return Registry(settings, _NOTHING)


@dataclass(frozen=True)
class _Serde:
    settings: RegistrySettings
    schema: SchemaText
    subject: str

    @property
    def registry(self) -> Registry:
        """The registry, asked once for each schema."""
        return _registry(self.settings)

    def schema_of(self, data: bytes) -> SchemaText:
        """Return the schema of a value. Raise :class:`Unfit` for one of another kind."""
        found = self.registry.text(schema_id(data))
        if found.kind != self.schema.kind:
            raise Unfit(f"its schema is of the kind {found.kind}, and not {self.schema.kind}")
        return found

    def check_writes(self) -> None:
        """Raise :class:`ConfigError` for a serde that can only read."""
        if not (self.schema.text and self.subject):
            raise ConfigError(
                f"a serde for {self.schema.kind} has no schema or no subject, and a value was to be written. {_NOTHING}"
                " Give it both.",
                tag="SERDE",
            )


class _AvroSerde(_Serde):
    def read(self, data: bytes) -> Any:
        found = self.schema_of(data)
        return _avro_reader(found, self.settings).value(data[HEADER_SIZE:])

    def write(self, value: Any) -> bytes:
        self.check_writes()
        number, schema, writer = _avro_writer(self.schema, self.subject, self.settings)
        out = BytesIO()
        writer(out, schema, value, strict_allow_default=True)
        made = out.getvalue()
        if is_bytes(schema):  # they stand alone, without their length
            made = made[next(at for at, byte in enumerate(made) if byte < 0x80) + 1 :]
        return number + made


@lru_cache(1024)
def _avro_reader(schema: SchemaText, settings: RegistrySettings) -> AvroReader:
    return AvroReader(schema.text, _named(schema, settings))


@lru_cache(1024)
def _avro_writer(schema: SchemaText, subject: str, settings: RegistrySettings) -> tuple[bytes, Any, Any]:
    """Return the bytes before each value, the schema as fastavro has it, and fastavro's writer."""
    import fastavro

    found = _registry(settings).identify(subject, schema)
    named = _named(found.schema, settings)
    return header(found.id), parsed(found.schema.text, named, logical=True), fastavro.schemaless_writer


def _named(schema: SchemaText, settings: RegistrySettings) -> tuple[str, ...]:
    return tuple(one.text for one in _registry(settings).referenced(schema.references).values())


@lru_cache(1024)
def _identified(schema: SchemaText, subject: str, settings: RegistrySettings) -> bytes:
    return header(_registry(settings).identify(subject, schema).id)


class _JsonSerde(_Serde):
    def read(self, data: bytes) -> Any:
        self.schema_of(data)
        return json.loads(data[HEADER_SIZE:])

    def write(self, value: Any) -> bytes:
        self.check_writes()
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return _identified(self.schema, self.subject, self.settings) + text.encode()


@dataclass(frozen=True)
class _ProtobufSerde(_Serde):
    message: Any

    def read(self, data: bytes) -> Any:
        from google.protobuf.message import DecodeError

        self.schema_of(data)
        path, start = message_path(data, HEADER_SIZE)
        if path != _path(self.message.DESCRIPTOR):
            raise Unfit(f"it is another message of its file than {self.message.DESCRIPTOR.full_name}")
        try:
            return self.message.FromString(data[start:])
        except DecodeError as error:
            raise Unfit(f"bytes are no message ({error!s:.200})") from None

    def write(self, value: Any) -> bytes:
        if not isinstance(value, self.message):
            raise TypeError(f"{type(value).__name__} is not {self.message.DESCRIPTOR.full_name}")
        schema = _proto_schema(self.message.DESCRIPTOR.file, self.settings)
        replace(self, schema=schema).check_writes()
        number = _identified(schema, self.subject, self.settings)
        return number + written_path(_path(self.message.DESCRIPTOR)) + bytes(value.SerializeToString())


@lru_cache(256)
def _path(message: Any) -> tuple[int, ...]:
    """Return the place of a message in its file, and in the messages around it."""
    around = message.containing_type
    beside = message.file.message_types_by_name.values() if around is None else around.nested_types
    place = [one.full_name for one in beside].index(message.full_name)
    return (place,) if around is None else (*_path(around), place)


@lru_cache(256)
def _proto_schema(file: Any, settings: RegistrySettings) -> SchemaText:
    """Return a file as a registry takes it. Files that it imports are registered first, under their names."""
    references = []
    for one in file.dependencies:
        if not one.name.startswith(_KNOWN_FILES):
            _identified(_proto_schema(one, settings), one.name, settings)
            references.append(Reference(one.name, one.name, _registry(settings).version(one.name)))
    return SchemaText("PROTOBUF", base64.b64encode(file.serialized_pb).decode(), tuple(references))
