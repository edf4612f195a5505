"""A message of Protobuf and what writes structs as it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from semel.extras import needs_extras
from semel.serdes.protobuf.schema import MessageField, MessageType, ProtobufOptions, known, protobuf_message
from semel.serdes.protobuf.text import imports_of, proto_text
from semel.serdes.protobuf.value import message_writer
from semel.serdes.schemas.arrow import values_of
from semel.serdes.schemas.schema import Schema

__all__ = ["ProtobufWriter"]

#: The place of the message in its file, after the id of the schema: it is the first.
_FIRST = b"\x00"


class ProtobufWriter:
    """Writes structs of one schema. ``text`` is the ``.proto`` file.

    Raises :class:`~semel.serdes.unfit.Mismatch` for a schema that Protobuf cannot say.
    """

    def __init__(self, schema: Schema | None, options: ProtobufOptions) -> None:
        package, message = protobuf_message(schema, options)
        assert schema is not None
        self.text = proto_text(package, message)
        #: The full name of the message.
        self.name = f"{package}.{message.name}" if package else message.name
        self._schema, self._fill = schema, message_writer(message, options)
        self._message = _message_class(package, message, self.name)

    def value(self, value: Any) -> bytes | None:
        """Return the bytes of a checked struct; None for a null."""
        if value is None:
            return None
        made = self._message()
        self._fill(made, value)
        return _FIRST + bytes(made.SerializeToString(deterministic=True))

    def column(self, column: Any, field: pa.Field) -> Any:
        """Return the bytes of each value of a column: one by one, since Protobuf's library has no columns."""
        return pa.array(map(self.value, values_of(column, self._schema)), pa.large_binary())


def _message_class(package: str, message: MessageType, name: str) -> Any:
    with needs_extras("Protobuf", "registry"):
        from confluent_kafka.schema_registry.confluent.type import decimal_pb2
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2
        from google.type import date_pb2, timeofday_pb2
    pool = descriptor_pool.DescriptorPool()
    for module in (timestamp_pb2, wrappers_pb2, date_pb2, timeofday_pb2, decimal_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    imports = imports_of(message, with_params=False)
    file = descriptor_pb2.FileDescriptorProto(name="value.proto", package=package, syntax="proto3", dependency=imports)
    _describe(message, file.message_type.add(), f".{name}")
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def _describe(message: MessageType, made: Any, path: str) -> None:
    made.name = message.name
    for name, (_, inner) in message.inner.items():
        _describe(inner, made.nested_type.add(), f"{path}.{name}")
    for one in message.fields:
        field = made.field.add(name=one.name, number=one.number)
        if one.keys:
            _describe_map(one, made, field, path)
            continue
        field.label = field.LABEL_REPEATED if one.label == "repeated" else field.LABEL_OPTIONAL
        _set_type(field, one.type, path)
        if one.label == "optional":
            field.proto3_optional, field.oneof_index = True, len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{one.name}")


def _describe_map(one: MessageField, made: Any, field: Any, path: str) -> None:
    """Describe a map as Protobuf does: a list of entries, whose message has the name of the field."""
    name = "".join(part[:1].upper() + part[1:] for part in one.name.split("_")) + "Entry"
    entry = made.nested_type.add(name=name)
    entry.options.map_entry = True
    for number, (part, kind) in enumerate((("key", one.keys), ("value", one.type)), 1):
        _set_type(entry.field.add(name=part, number=number, label=field.LABEL_OPTIONAL), kind, path)
    field.label, field.type, field.type_name = field.LABEL_REPEATED, field.TYPE_MESSAGE, f"{path}.{name}"


def _set_type(field: Any, kind: str | MessageType, path: str) -> None:
    if isinstance(kind, MessageType):
        field.type, field.type_name = field.TYPE_MESSAGE, f"{path}.{kind.name}"
    elif known(kind):
        field.type, field.type_name = field.TYPE_MESSAGE, f".{kind}"
    else:
        field.type = getattr(field, f"TYPE_{kind.upper()}")
