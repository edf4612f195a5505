"""A struct of Kafka Connect as a message of Protobuf."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from semel.serdes.json_value import milliseconds, unscaled
from semel.serdes.protobuf.schema import MessageField, MessageType, ProtobufOptions, known
from semel.serdes.schemas.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from semel.serdes.schemas.struct import Struct
from semel.serdes.text import encoded
from semel.serdes.unfit import Mismatch

__all__ = ["message_writer"]

Fill = Callable[[Any, Any], None]


def message_writer(message: MessageType, options: ProtobufOptions) -> Fill:
    """Return the function that fills a message with a struct.

    It raises :class:`Mismatch` for a null that may not be.
    """
    parts = [(one, _field_writer(one, options)) for one in message.fields]

    def fill(target: Any, value: Struct) -> None:
        for (one, write), cell in zip(parts, value.cells, strict=True):
            if cell is None:
                cell = None if options.null_stays and one.schema.optional else one.schema.default
            if cell is not None:
                write(target, cell)
            elif not one.schema.optional:
                raise Mismatch(f"does not fit: its field {one.name:.60} is null, and its schema is not optional")

    return fill


def _field_writer(one: MessageField, options: ProtobufOptions) -> Fill:
    schema, name = one.schema, one.name
    if schema.type is Type.ARRAY and schema.values is not None:
        return _items(one, schema.values, options)
    if schema.type is Type.MAP:
        return _entries(one, options)
    if isinstance(one.type, MessageType):
        inner = message_writer(one.type, options)

        def fill(target: Any, value: Struct) -> None:
            part = getattr(target, name)
            part.SetInParent()
            inner(part, value)

        return fill
    if known(one.type):
        write = _known_writer(schema)

        def fill_known(target: Any, value: Any) -> None:
            part = getattr(target, name)
            part.SetInParent()
            write(part, value)

        return fill_known
    return lambda target, value: setattr(target, name, _scalar(value))


def _scalar(value: Any) -> Any:
    if type(value) is str and not value.isascii():
        encoded(value)
    return value


def _items(one: MessageField, schema: Schema, options: ProtobufOptions) -> Fill:
    write = _part_writer(one, schema, options)

    def fill(target: Any, value: list[Any]) -> None:
        items = getattr(target, one.name)
        for item in value:
            if item is None:
                raise Mismatch(f"does not fit: its list {one.name:.60} has a null, which Protobuf does not have")
            if write is None:
                items.append(_scalar(item))
            else:
                write(items.add(), item)

    return fill


def _entries(one: MessageField, options: ProtobufOptions) -> Fill:
    schema = one.schema
    assert schema.values is not None
    if not one.keys:
        assert isinstance(one.type, MessageType)
        entry = message_writer(one.type, options)
        pair = Schema.struct({"key": schema.keys, "value": schema.values}) if schema.keys is not None else schema

        def fill_pairs(target: Any, value: dict[Any, Any]) -> None:
            for key, cell in value.items():
                entry(getattr(target, one.name).add(), Struct.of_cells(pair, (key, cell)))

        return fill_pairs
    write = _part_writer(one, schema.values, options)

    def fill(target: Any, value: dict[Any, Any]) -> None:
        items = getattr(target, one.name)
        for key, cell in value.items():
            if cell is None:
                raise Mismatch(f"does not fit: its map {one.name:.60} has a null, which Protobuf does not have")
            if write is None:
                items[_scalar(key)] = _scalar(cell)
            else:
                write(items[_scalar(key)], cell)

    return fill


def _part_writer(one: MessageField, schema: Schema, options: ProtobufOptions) -> Fill | None:
    """Return what fills a message in a list or a map; None for scalars."""
    if isinstance(one.type, MessageType):
        return message_writer(one.type, options)
    return _known_writer(schema) if known(one.type) else None


def _known_writer(schema: Schema) -> Fill:
    if schema.logical is None:
        return lambda target, value: setattr(target, "value", _scalar(value))
    return _LOGICAL[schema.logical]


def _decimal(target: Any, value: Decimal) -> None:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    target.value, target.scale = unscaled(value), -exponent
    target.precision = value.adjusted() - exponent + 1 if value else 1


def _date(target: Any, value: date) -> None:
    target.year, target.month, target.day = value.year, value.month, value.day


def _time(target: Any, value: time) -> None:
    target.hours, target.minutes, target.seconds = value.hour, value.minute, value.second
    target.nanos = value.microsecond // 1000 * 1_000_000


def _timestamp(target: Any, value: datetime) -> None:
    target.seconds, part = divmod(milliseconds(value), 1000)
    target.nanos = part * 1_000_000


_LOGICAL: Mapping[str, Fill] = {DECIMAL: _decimal, DATE: _date, TIME: _time, TIMESTAMP: _timestamp}
