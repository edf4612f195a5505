"""The message of Protobuf for a struct of Kafka Connect, as Confluent's ``ProtobufData`` makes it.

Protobuf has no null: one is a field that is not there, and reads as the type's default. ``optional.for.nullables`` and
``wrapper.for.nullables`` keep the difference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from semel.serdes.schemas.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from semel.serdes.unfit import Mismatch
from semel.settings.fields import setting

__all__ = [
    "ENUM",
    "KNOWN_TYPES",
    "TAG",
    "TYPE",
    "UNION",
    "WRAPPERS",
    "MessageField",
    "MessageType",
    "ProtobufOptions",
    "protobuf_message",
]

_NAMESPACE = "io.confluent.connect.protobuf"
TAG, TYPE = f"{_NAMESPACE}.Tag", f"{_NAMESPACE}.Type"
ENUM, UNION = f"{_NAMESPACE}.Enum", f"{_NAMESPACE}.Union"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCALARS = {
    Type.INT8: "int32",
    Type.INT16: "int32",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "bool",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
WRAPPERS = {kind: f"google.protobuf.{one[0].upper()}{one[1:]}Value" for kind, one in _SCALARS.items()}
KNOWN_TYPES = {
    DECIMAL: "confluent.type.Decimal",
    DATE: "google.type.Date",
    TIME: "google.type.TimeOfDay",
    TIMESTAMP: "google.protobuf.Timestamp",
}
#: Kafka Connect's types that may be keys of Protobuf's maps.
_KEYS = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.BOOLEAN, Type.STRING})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufOptions:
    """How a null is written, and which names are changed."""

    optional: bool = setting(bool, False, name="optional.for.nullables")
    wrapped: bool = setting(bool, False, name="wrapper.for.nullables")
    scrub_names: bool = setting(bool, False, name="scrub.invalid.names")
    null_stays: bool = setting(bool, False, name="ignore.default.for.nullables")


@dataclass(slots=True)
class MessageType:
    """A message: its name, its fields, and the messages that are defined in it."""

    name: str
    fields: list[MessageField] = field(default_factory=list)
    inner: dict[str, tuple[Schema, MessageType]] = field(default_factory=dict)


@dataclass(slots=True)
class MessageField:
    """A field. ``type`` is a scalar's name, the full name of a known message, or an inner message."""

    name: str
    number: int
    schema: Schema
    type: str | MessageType
    #: ``repeated``, ``optional`` or nothing.
    label: str = ""
    #: The type of the keys of a map.
    keys: str = ""
    #: What Kafka Connect says beside the type.
    params: dict[str, str] = field(default_factory=dict)


def protobuf_message(schema: Schema | None, options: ProtobufOptions) -> tuple[str, MessageType]:
    """Return the package and the message. Raise :class:`Mismatch` for a schema that Protobuf cannot say."""
    if schema is None or schema.type is not Type.STRUCT:
        what = "no schema" if schema is None else f"a schema of type {schema.type}"
        raise Mismatch(f"has {what}, and ProtobufConverter writes structs; HoistField makes one")
    return _Messages(options).whole(schema)


class _Messages:
    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options
        self._unnamed = 0

    def whole(self, schema: Schema) -> tuple[str, MessageType]:
        package, _, name = self._name(schema).rpartition(".")
        return package, self._message(schema, name)

    def _name(self, schema: Schema) -> str:
        if schema.name is None:
            self._unnamed += 1
            return f"ConnectDefault{self._unnamed}"
        return ".".join(map(self._checked, schema.name.split(".")))

    def _checked(self, name: str) -> str:
        if self._options.scrub_names:
            name = re.sub(r"[^A-Za-z0-9_]", "_", name)
            name = name if _NAME.fullmatch(name) else f"x{name}"
        if not _NAME.fullmatch(name):
            raise Mismatch(f"has the name {name!r:.60}, which Protobuf does not take; scrub.invalid.names may help")
        return name

    def _message(self, schema: Schema, name: str) -> MessageType:
        made = MessageType(name)
        number = 1
        for one in schema.fields:
            tag = (one.schema.parameters or {}).get(TAG)
            place, number = (int(tag), number) if tag is not None else (number, number + 1)
            made.fields.append(self._field(made, self._checked(one.name), place, one.schema))
        if len({one.name for one in made.fields}) < len(made.fields):
            raise Mismatch(f"has a schema {name:.60} of which two fields get one name in Protobuf")
        return made

    def _field(self, around: MessageType, name: str, number: int, schema: Schema) -> MessageField:
        if schema.type is Type.ARRAY and schema.values is not None:
            if schema.values.type in (Type.ARRAY, Type.MAP):
                raise Mismatch(f"has a list of lists or maps in its field {name:.60}, which Protobuf does not have")
            kind, params = self._kind(around, name, schema.values, alone=False)
            return MessageField(name, number, schema, kind, "repeated", params=params)
        if schema.type is Type.MAP and schema.keys is not None and schema.values is not None:
            return self._map(around, name, number, schema)
        kind, params = self._kind(around, name, schema, alone=True)
        label = "optional" if self._options.optional and schema.optional else ""
        return MessageField(name, number, schema, kind, label, params=params)

    def _map(self, around: MessageType, name: str, number: int, schema: Schema) -> MessageField:
        assert schema.keys is not None
        assert schema.values is not None
        if schema.values.type in (Type.ARRAY, Type.MAP):
            raise Mismatch(f"has a map of lists or maps in its field {name:.60}, which Protobuf does not have")
        if schema.keys.type in _KEYS and schema.keys.logical is None:
            kind, params = self._kind(around, name, schema.values, alone=False)
            return MessageField(name, number, schema, kind, keys=_SCALARS[schema.keys.type], params=params)
        entry = Schema.struct({"key": schema.keys, "value": schema.values})
        inner = self._inner(around, f"{name[0].upper()}{name[1:]}Entry", entry)
        return MessageField(name, number, schema, inner, "repeated")

    def _kind(
        self, around: MessageType, name: str, schema: Schema, *, alone: bool
    ) -> tuple[str | MessageType, dict[str, str]]:
        """Return the type of a field, and what is said beside it."""
        parameters = schema.parameters or {}
        if any(one.startswith((ENUM, UNION)) for one in (*parameters, schema.name or "")):
            raise Mismatch(f"has a choice or an enumeration in its field {name:.60}, which is not written here")
        if schema.logical is not None:
            params = {"scale": str(schema.scale)} if schema.logical == DECIMAL else {}
            if "connect.decimal.precision" in parameters and params:
                params = {"precision": parameters["connect.decimal.precision"], **params}
            return KNOWN_TYPES[schema.logical], params
        if schema.type is Type.STRUCT:
            message = self._name(schema).rpartition(".")[2]
            return self._inner(around, f"{message}Message" if message == name else message, schema), {}
        params = {"connect.type": str(schema.type)} if schema.type in (Type.INT8, Type.INT16) else {}
        if self._options.wrapped and schema.optional and alone:
            return WRAPPERS[schema.type], params
        return parameters.get(TYPE, _SCALARS[schema.type]), params

    def _inner(self, around: MessageType, name: str, schema: Schema) -> MessageType:
        """Return the message of a struct, defined in the one around it. A name stands for one struct there."""
        found = around.inner.get(name)
        if found is not None:
            if found[0].fields != schema.fields:
                raise Mismatch(f"has two structs with the name {name:.60} in one message")
            return found[1]
        made = self._message(schema, name)
        around.inner[name] = schema, made
        return made


def known(kind: Any) -> bool:
    """Return whether a type is a message that Protobuf's own files, Google's or Confluent's define."""
    return isinstance(kind, str) and "." in kind
