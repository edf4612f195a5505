"""Converters of the user's own: one value at a time, as Kafka Connect's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from semel.connect.converters import ConfiguredConverter
from semel.errors import SemelError
from semel.serdes.columns import whole
from semel.serdes.schemas import Schema
from semel.serdes.schemas.arrow import schema_of, values_of
from semel.serdes.schemas.runs import Run, runs_of
from semel.serdes.schemas.struct import checked
from semel.serdes.unfit import Mismatch
from semel.settings import Setting, read_settings, unknown
from semel.settings.own_classes import own_class

__all__ = ["Converter", "own_converter"]


class Converter:
    """Converts keys or values. Sources write by :meth:`from_connect_data`, sinks read by :meth:`to_connect_data`.

    What they raise is an error of that record. A null without a schema is null in Kafka, and the reverse: neither is
    asked for it.
    """

    #: Names and kinds of its settings.
    options: ClassVar[Mapping[str, Setting]] = {}

    def __init__(self, options: Mapping[str, Any], *, is_key: bool) -> None:
        self.given, self.is_key = options, is_key

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a value, checked by its schema, or as it came without one."""
        raise NotImplementedError(f"{type(self).__name__} does not write, as sources need it")

    def to_connect_data(self, topic: str, data: bytes) -> tuple[Schema | None, Any]:
        """Return the schema and the value of bytes. Without a schema, a value is what JSON has."""
        raise NotImplementedError(f"{type(self).__name__} does not read, as sinks need it")


def own_converter(name: str, setting: str, options: Mapping[str, str]) -> ConfiguredConverter | None:
    """Return the converter of a class by its Python name or entry point; None if no such class can be there.

    Raises :class:`~semel.errors.ConfigError` for one that cannot be imported, and for wrong options.
    """
    kind = own_class(name, Converter, "converters")
    if kind is None:
        return None
    wrong = next((one for one in sorted(options) if one not in kind.options), None)
    if wrong is not None:
        raise unknown(f"{setting}.{wrong}", [f"{setting}.{one}" for one in kind.options], what="option")
    made = kind(read_settings(kind.options, options, prefix=f"{setting}."), is_key=setting.startswith("key."))
    one_by_one = _OneByOne(made)
    return ConfiguredConverter(kind.__name__, "what it takes", one_by_one.column, one_by_one.value, one_by_one.read)


class _OneByOne:
    """Asks a converter for each value."""

    def __init__(self, made: Converter) -> None:
        self._made, self._name = made, type(made).__name__

    def column(self, column: Any, field: pa.Field, topic: str) -> Any:
        """Write the values of a column."""
        schema = schema_of(field)
        values = values_of(whole(column), schema)
        return pa.array([None if one is None else self.value(schema, one, topic) for one in values], pa.binary())

    def value(self, schema: Schema | None, value: Any, topic: str) -> bytes | None:
        """Write one value."""
        if schema is None and value is None:
            return None
        try:
            made = self._made.from_connect_data(topic, schema, value)
        except SemelError:
            raise
        except Exception as error:
            raise Mismatch(f"made {self._name} raise {type(error).__name__}: {error!s:.200}") from error
        if made is not None and not isinstance(made, bytes | bytearray | memoryview):
            raise Mismatch(f"was made a {type(made).__name__} by {self._name}, which must give bytes")
        return None if made is None else bytes(made)

    def read(self, column: Any, part: str, topic: str) -> list[Run]:
        """Read a column of bytes."""
        return runs_of((None if one is None else self._read(topic, one) for one in column.to_pylist()), part)

    def _read(self, topic: str, data: bytes) -> tuple[Schema | None, Any]:
        try:
            schema, value = self._made.to_connect_data(topic, data)
        except SemelError:
            raise
        except Exception as error:
            raise ValueError(f"it raised {type(error).__name__}: {error!s:.200}") from error
        try:
            return schema, value if schema is None or value is None else checked(schema, value)
        except Mismatch as error:
            raise ValueError(f"a value {error.what}") from None
