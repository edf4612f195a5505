"""Messages of Protobuf as Kafka Connect has them, as Confluent's ``ProtobufData`` reads them.

Each field is optional, unless ``optional.for.nullables`` or ``wrapper.for.nullables`` says which are not. A choice
(a oneof) is a struct of its fields, an enumeration the text of its symbol. A field without presence that was not
written has its type's default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from semel.serdes.protobuf.compiled import messages_of
from semel.serdes.protobuf.schema import ENUM, KNOWN_TYPES, TAG, TYPE, UNION, WRAPPERS, ProtobufOptions
from semel.serdes.registry.framing import message_path
from semel.serdes.schemas.json_form import decimal_of
from semel.serdes.schemas.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type
from semel.serdes.schemas.struct import Struct, checked
from semel.serdes.unfit import Unfit

__all__ = ["ProtobufReader"]

Read = Callable[[Any], Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCALARS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), Type.INT32),
    **dict.fromkeys(("uint32", "fixed32", "int64", "uint64", "sint64", "fixed64", "sfixed64"), Type.INT64),
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "bool": Type.BOOLEAN,
    "string": Type.STRING,
    "bytes": Type.BYTES,
}
_LOGICAL = {message: name for name, message in KNOWN_TYPES.items()}
_NARROW = {str(one): one for one in (Type.INT8, Type.INT16)}
#: The names of scalar types, by their numbers in a description.
_NAMES = dict(
    zip(
        range(1, 19),
        "double float int64 uint64 int32 fixed64 fixed32 bool string group message bytes uint32"
        " enum sfixed32 sfixed64 sint32 sint64".split(),
        strict=True,
    )
)
#: Wrappers of numbers without a sign are numbers of 64 bits.
_WRAPPED = {**{message: kind for kind, message in WRAPPERS.items()}} | {
    "google.protobuf.Int32Value": Type.INT32,
    "google.protobuf.UInt32Value": Type.INT64,
    "google.protobuf.UInt64Value": Type.INT64,
}


class ProtobufReader:
    """Reads values of one file of Protobuf. Each names its message. ``named`` are the files that it imports.

    Raises :class:`Unfit` for a file that is not read here.
    """

    def __init__(self, text: str, named: Mapping[str, str], options: ProtobufOptions) -> None:
        self._messages, self._options = messages_of(text, named), options
        self._readers: dict[tuple[int, ...], tuple[Any, Schema, Read]] = {}

    def read(self, data: bytes) -> tuple[Schema, Any]:
        """Return the schema of a value, and the value. Raise :class:`Unfit` for bytes that are no message."""
        from google.protobuf.message import DecodeError

        path, start = message_path(data, 0)
        found = self._readers.get(path)
        if found is None:
            found = self._readers[path] = self._reader(path)
        message, schema, read = found
        try:
            return schema, read(message.FromString(data[start:]))
        except DecodeError as error:
            raise Unfit(f"bytes are no message of their schema ({error!s:.200})") from None
        except (ArithmeticError, ValueError) as error:
            if isinstance(error, Unfit):
                raise
            raise Unfit(f"a value of its Protobuf schema cannot be read ({error!s:.200})") from None

    def _reader(self, path: tuple[int, ...]) -> tuple[Any, Schema, Read]:
        from google.protobuf import message_factory

        beside, found = self._messages, None
        for place in path:
            if not 0 <= place < len(beside):
                raise Unfit(f"it is message {'.'.join(map(str, path))} of its file, which has no such message")
            found = beside[place]
            beside = list(found.nested_types)
        schema, read = _Builder(self._options).message(found)
        return message_factory.GetMessageClass(found), schema, read


class _Builder:
    """Makes, of each message, the schema of Kafka Connect and what reads it."""

    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options
        self._open: list[str] = []

    def message(self, message: Any) -> tuple[Schema, Read]:
        """Return the schema of a message, and what reads it."""
        if message.full_name in self._open:
            raise Unfit(f"its schema refers to itself by {message.full_name:.60}, which is not read here")
        self._open.append(message.full_name)
        parts = [self._choice(one) for one in message.oneofs if not _is_optional(one)]
        alone = (one for one in message.fields if one.containing_oneof is None or _is_optional(one.containing_oneof))
        parts.extend((one.name, *self._field(one)) for one in alone)
        self._open.pop()
        schema = Schema(Type.STRUCT, name=message.name, fields=tuple(Field(name, made) for name, made, _ in parts))
        reads = [read for _, _, read in parts]
        return schema, lambda value: Struct.of_cells(schema, tuple(read(value) for read in reads))

    def _choice(self, choice: Any) -> tuple[str, Schema, Read]:
        parts = {one.name: self._field(one) for one in choice.fields}
        fields = tuple(Field(name, made.but(optional=True)) for name, (made, _) in parts.items())
        schema = Schema(Type.STRUCT, optional=True, name=f"{UNION}.{choice.name}", fields=fields)

        def read(value: Any) -> Struct | None:
            there = value.WhichOneof(choice.name)
            if there is None:
                return None
            cells = tuple(read(value) if name == there else None for name, (_, read) in parts.items())
            return Struct.of_cells(schema, cells)

        return f"{choice.name}_{choice.index}", schema, read

    def _field(self, field: Any) -> tuple[Schema, Read]:
        """Return the schema of a field, and what reads it of its message."""
        name, options = field.name, self._options
        if _is_repeated(field):
            made, read = self._map(field.message_type) if _is_map(field) else self._list(*self._single(field))
        else:
            made, read = self._single(field)
        keyword = field.has_presence and field.message_type is None and not _is_required(field)
        optional = keyword if options.optional else not options.wrapped
        always = _is_repeated(field) or field.message_type is not None or field.enum_type is not None
        made = made.but(optional=always or optional, parameters={**(made.parameters or {}), TAG: str(field.number)})
        if not field.has_presence:
            return made, lambda value: read(getattr(value, name))
        return made, lambda value: read(getattr(value, name)) if value.HasField(name) else None

    def _list(self, made: Schema, read: Read) -> tuple[Schema, Read]:
        return Schema.array(made.but(optional=True)), lambda items: [read(one) for one in items]

    def _map(self, entry: Any) -> tuple[Schema, Read]:
        keys, key = self._field(entry.fields[0])
        values, value = self._field(entry.fields[1])
        made = Schema.map(keys.but(optional=False), values, name=_map_name(entry.name))
        if not entry.GetOptions().map_entry:
            return made, lambda entries: {key(one): value(one) for one in entries}
        (_, key), (_, value) = self._single(entry.fields[0]), self._single(entry.fields[1])
        return made, lambda entries: {key(one): value(entries[one]) for one in entries}

    def _single(self, field: Any) -> tuple[Schema, Read]:
        """Return the schema of one value of a field, and what reads it."""
        if field.message_type is not None:
            return self._message(field)
        if field.enum_type is not None:
            return _enumeration(field.enum_type)
        kind = _NAMES[field.type]
        schema = Schema(_SCALARS[kind])
        if schema.type is Type.INT32:
            schema = Schema(_NARROW.get(_params(field).get("connect.type", ""), Type.INT32))
        if schema.type in (Type.INT32, Type.INT64) and kind != str(schema.type):
            schema = schema.but(parameters={TYPE: kind})
        if schema.type in (Type.INT8, Type.INT16) or kind in ("uint64", "fixed64"):
            return schema, lambda value: checked(schema, value)
        return schema, lambda value: value

    def _message(self, field: Any) -> tuple[Schema, Read]:
        name = field.message_type.full_name
        if name in _LOGICAL:
            return _logical(_LOGICAL[name], _params(field))
        if self._options.wrapped and name in _WRAPPED:
            schema = Schema(_WRAPPED[name])
            return schema, lambda value: checked(schema, value.value)
        return self.message(field.message_type)


def _logical(name: str, params: Mapping[str, str]) -> tuple[Schema, Read]:
    if name != DECIMAL:
        kind, read = _READ[name]
        return Schema(kind, name=name, version=1), read
    precision, scale = params.get("precision"), params.get("scale", "0")
    more = {"connect.decimal.precision": precision} if precision else {}
    schema = Schema.decimal(int(scale), parameters=more)
    return schema, lambda value: checked(schema, decimal_of(int.from_bytes(value.value, signed=True), value.scale))


def _enumeration(kind: Any) -> tuple[Schema, Read]:
    symbols = {one.name: str(one.number) for one in kind.values}
    parameters = {ENUM: kind.name, **{f"{ENUM}.{symbol}": number for symbol, number in symbols.items()}}
    by_number = {number: one.name for number, one in kind.values_by_number.items()}
    return Schema.string(name=kind.name, parameters=parameters), lambda number: by_number.get(
        number, f"UNKNOWN_ENUM_VALUE_{kind.name}_{number}"
    )


def _params(field: Any) -> Mapping[str, str]:
    """Return what Kafka Connect says of a field beside its type."""
    from confluent_kafka.schema_registry.confluent import meta_pb2

    return dict(field.GetOptions().Extensions[meta_pb2.field_meta].params)


def _is_optional(choice: Any) -> bool:
    """Return True for the choice that Protobuf makes of one field with the word ``optional``."""
    return len(choice.fields) == 1 and choice.name == f"_{choice.fields[0].name}"


def _is_map(field: Any) -> bool:
    entry = field.message_type
    if entry is None or not entry.name.endswith("Entry"):
        return False
    return [one.name for one in entry.fields] == ["key", "value"] and not any(map(_is_repeated, entry.fields))


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def _is_required(field: Any) -> bool:
    return bool(field.is_required if hasattr(field, "is_required") else field.label == field.LABEL_REQUIRED)


def _map_name(entry: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", entry.removesuffix("Entry")).lower()


def _time(value: Any) -> time:
    return time(value.hours, value.minutes, value.seconds, value.nanos // 1_000_000 * 1000)


def _timestamp(value: Any) -> datetime:
    return _EPOCH + timedelta(seconds=value.seconds, milliseconds=value.nanos // 1_000_000)


_READ: Mapping[str, tuple[Type, Read]] = {
    DATE: (Type.INT32, lambda value: date(value.year, value.month, value.day)),
    TIME: (Type.INT32, _time),
    TIMESTAMP: (Type.INT64, _timestamp),
}
