"""Converters of Kafka Connect: serdes, with Kafka Connect's options, and errors that name a record's key or value.

Sources write by them, sinks read by them.

Python's numbers have no width: ``IntegerConverter`` takes whole numbers that fit into 32 bits, ``FloatConverter`` those
that 32 bits hold exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from semel.errors import ConfigError
from semel.serdes.json import write_json
from semel.serdes.json_read import read_envelopes, read_plain
from semel.serdes.json_value import JsonForm, json_text, json_value, schema_text
from semel.serdes.numbers import NUMBERS as KINDS
from semel.serdes.schemas import Schema
from semel.serdes.schemas.runs import Run
from semel.serdes.text import as_bytes, bytes_value, checked_text, encoded, text_value, write_bytes, write_text
from semel.serdes.unfit import Mismatch, MixedTypes, NotText, TooWide, Unfit, WrongType
from semel.settings import Setting, not_yet, read_settings, unknown

__all__ = [
    "BYTES",
    "NUMBERS",
    "STRING",
    "WITHOUT_EFFECT",
    "ConfiguredConverter",
    "check_plain",
    "json_converter",
    "refused",
]

#: Options that Kafka Connect's converters have, and that change nothing here.
WITHOUT_EFFECT = frozenset({"plugin.version", "schemas.cache.size"})
_ENCODING = "converter.encoding"
#: What can hold lists and dictionaries.
_ANYTHING = ("JSON", "Avro", "JSON Schema", "Protobuf")


@dataclass(frozen=True, slots=True)
class ConfiguredConverter:
    """Writes keys or values as bytes: a column of them, or one by its schema."""

    name: str
    #: What it writes, in messages.
    form: str
    _column: Callable[[Any, pa.Field, str], Any]
    _value: Callable[[Schema | None, Any, str], bytes | None]
    _read: Callable[[Any, str, str], list[Run]]

    def read(self, column: Any, part: str, topic: str) -> list[Run]:
        """Return the values of a column of bytes: neighbours of one schema are one column, with its field."""
        try:
            return self._read(column, part, topic)
        except (ValueError, pa.ArrowInvalid) as error:
            raise _unreadable(error, part, self.name, self.form) from None

    def column(self, column: Any, field: pa.Field, topic: str) -> Any:
        """Return a column of bytes. ``field`` names the part of the record, and has its schema."""
        try:
            return self._column(column, field, topic)
        except Unfit as error:
            raise refused(error, field.name, self.name, self.form) from None

    def value(self, schema: Schema | None, value: Any, part: str, topic: str) -> bytes | None:
        """Return the bytes of one value, checked by its schema, or as it is without one."""
        try:
            return self._value(schema, value, topic)
        except Unfit as error:
            raise refused(error, part, self.name, self.form) from None


def check_plain(options: Mapping[str, str], setting: str, *, text: bool) -> None:
    """Check the options of a converter for text or for bytes. Raise an error for one that it has not.

    Text and bytes have no schema: what is said of one is passed over, as Kafka does.
    """
    _refuse_unknown(options, {"schemas.enable", _ENCODING} if text else {"schemas.enable"}, setting)
    if options.get(_ENCODING, "UTF-8").upper() not in ("UTF-8", "UTF8"):
        raise not_yet(f"{setting}.{_ENCODING}={options[_ENCODING]:.100}", "Remove it: text is written as UTF-8.")


def _refuse_unknown(options: Mapping[str, str], known: Collection[str], setting: str) -> None:
    for name in sorted(options.keys() - WITHOUT_EFFECT - set(known)):
        raise unknown(f"{setting}.{name}", [f"{setting}.{one}" for one in known], what="option of this converter")


_JSON = {
    "schemas.enable": Setting(bool, True),
    "decimal.format": Setting(str, "BASE64", one_of=("BASE64", "NUMERIC")),
    "replace.null.with.default": Setting(bool, True),
}


def json_converter(options: Mapping[str, str], setting: str) -> ConfiguredConverter:
    """Return the converter with these options. Raise an error for one that is wrong."""
    _refuse_unknown(options, _JSON, setting)
    values = read_settings(_JSON, options, prefix=f"{setting}.")
    form = JsonForm(numeric=values["decimal.format"] == "NUMERIC", defaults=values["replace.null.with.default"])
    with_schema = values["schemas.enable"]

    def column(values: Any, field: pa.Field, _: str) -> Any:
        return write_json(values, field, with_schema=with_schema, form=form)

    def value(schema: Schema | None, one: Any, _: str) -> bytes | None:
        if one is None and schema is None:
            return None
        text = json_text(one) if schema is None else json_value(schema, one, form)
        if with_schema:
            text = f'{{"schema":{"null" if schema is None else schema_text(schema, form)},"payload":{text}}}'
        return encoded(text)

    read = read_envelopes if with_schema else read_plain
    return ConfiguredConverter("JsonConverter", "JSON", column, value, lambda data, part, _: read(data, part))


def refused(error: Unfit, part: str, converter: str, form: str) -> ConfigError:
    """Return the error for a key or a value that its converter does not write."""
    match error:
        case NotText():
            said = f"is not text in UTF-8 ({error.value!r:.100}), and {converter} writes text"
            way = "Use ByteArrayConverter to write the bytes as they are."
        case TooWide():
            said = f"does not fit into {form}, which {converter} writes"
            way = f"Choose a wider {part}.converter."
        case Mismatch():
            said, way = error.what, "Have the connector give values that fit their schema."
        case MixedTypes():
            said = "holds values of several types in one list or field, for which there is no schema"
            way = "Set schemas.enable=false, or have the connector give one type."
        case WrongType() if form in _ANYTHING:
            said = f"holds {error.kind}, which {converter} does not write"
            way = (
                "Have the connector give text, numbers, booleans, bytes, times, lists or dictionaries with text as"
                " keys."
            )
        case _:
            said = f"is {getattr(error, 'kind', error)}, and {converter} writes {form}"
            way = f"Choose another {part}.converter, or have the connector give {form}."
    tag = "NOT_TEXT" if isinstance(error, NotText) else "WRONG_TYPE"
    return ConfigError(f"a {part} {said}. Nothing of this poll is visible. {way}", tag=tag)


def _unreadable(error: Exception, part: str, converter: str, form: str) -> ConfigError:
    return ConfigError(
        f"a {part} is not {form} as {converter} reads it: {error!s:.200}. The record was not put into the target."
        f" Choose another {part}.converter, or set errors.tolerance=all to leave such records out.",
        tag="UNREADABLE_RECORD",
    )


def _plain(write: Callable[[Any], Any]) -> Callable[[Any, pa.Field, str], Any]:
    return lambda column, _field, _topic: write(column)


def _one(write: Callable[[Any], bytes]) -> Callable[[Schema | None, Any, str], bytes | None]:
    return lambda _schema, value, _topic: None if value is None else write(value)


def _by_schema(
    write: Callable[[Schema | None, Any], bytes | None],
) -> Callable[[Schema | None, Any, str], bytes | None]:
    return lambda schema, value, _: write(schema, value)


def _reads(read: Callable[[Any], Any]) -> Callable[[Any, str, str], list[Run]]:
    def run(column: Any, name: str, _: str) -> list[Run]:
        made = read(column)
        return [(pa.field(name, made.type), made)]

    return run


STRING = ConfiguredConverter(
    "StringConverter", "text", _plain(write_text), _by_schema(text_value), _reads(checked_text)
)
BYTES = ConfiguredConverter(
    "ByteArrayConverter", "bytes", _plain(write_bytes), _by_schema(bytes_value), _reads(as_bytes)
)
#: By the first part of the names of their classes.
NUMBERS: Mapping[str, ConfiguredConverter] = MappingProxyType(
    {
        name: ConfiguredConverter(
            f"{name}Converter",
            str(number.kind),
            _plain(number.write_exact),
            _one(number.write_one),
            _reads(number.read),
        )
        for name, number in KINDS.items()
    }
)
