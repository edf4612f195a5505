"""Converters of Kafka Connect: serdes, with Kafka Connect's options, and errors that name a record's key or value.

Python's numbers have no width: ``IntegerConverter`` takes whole numbers that fit into 32 bits, ``FloatConverter`` those
that 32 bits hold exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from semel.errors import ConfigError
from semel.serdes.json import write_json
from semel.serdes.numbers import NUMBERS as KINDS
from semel.serdes.text import write_bytes, write_text
from semel.serdes.unfit import MixedTypes, NotText, TooWide, Unfit, WrongType
from semel.settings import Setting, not_yet, read_value, unknown

__all__ = ["BYTES", "NUMBERS", "STRING", "WITHOUT_EFFECT", "Converter", "check_plain", "json_converter"]

#: Takes a column and its field (for the name, and whether it may be null) to one of bytes.
Converter = Callable[[Any, pa.Field], Any]

#: Options that Kafka Connect's converters have, and that change nothing here.
WITHOUT_EFFECT = frozenset({"plugin.version", "schemas.cache.size"})
_ENCODING = "converter.encoding"


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


def json_converter(options: Mapping[str, str], setting: str) -> Converter:
    """Return the converter with these options. Raise an error for one that is not there."""
    if "decimal.format" in options:
        raise not_yet(f"{setting}.decimal.format", "Remove it: JsonConverter writes a decimal as text.")
    _refuse_unknown(options, {"schemas.enable"}, setting)
    with_schema = read_value(f"{setting}.schemas.enable", options.get("schemas.enable", "true"), Setting(bool))
    return _converter("JsonConverter", "JSON", partial(write_json, with_schema=with_schema))


def _converter(name: str, writes: str, write: Callable[[Any, pa.Field], Any]) -> Converter:
    def convert(column: Any, field: pa.Field) -> Any:
        try:
            return write(column, field)
        except Unfit as error:
            raise _refused(error, field.name, name, writes) from None

    return convert


def _refused(error: Unfit, part: str, converter: str, writes: str) -> ConfigError:
    """Return the error for a key or a value that its converter does not write."""
    match error:
        case NotText():
            said = f"is not text in UTF-8 ({error.value!r:.100}), and {converter} writes text"
            way = "Use ByteArrayConverter to write the bytes as they are."
        case TooWide():
            said = f"does not fit into {writes}, which {converter} writes"
            way = f"Choose a wider {part}.converter."
        case MixedTypes():
            said = "holds values of several types in one list or field, for which there is no schema"
            way = "Set schemas.enable=false, or have the connector give one type."
        case WrongType() if writes == "JSON":
            said = f"holds {error.kind}, which {converter} does not write"
            way = (
                "Have the connector give text, numbers, booleans, bytes, times, lists or dictionaries with text as"
                " keys."
            )
        case _:
            said = f"is {getattr(error, 'kind', error)}, and {converter} writes {writes}"
            way = f"Choose another {part}.converter, or have the connector give {writes}."
    tag = "NOT_TEXT" if isinstance(error, NotText) else "WRONG_TYPE"
    return ConfigError(f"a {part} {said}. Nothing of this poll is visible. {way}", tag=tag)


def _plain(write: Callable[[Any], Any]) -> Callable[[Any, pa.Field], Any]:
    return lambda column, _: write(column)


STRING = _converter("StringConverter", "text", _plain(write_text))
BYTES = _converter("ByteArrayConverter", "bytes", _plain(write_bytes))
#: By the first part of the names of their classes.
NUMBERS: Mapping[str, Converter] = MappingProxyType(
    {
        name: _converter(f"{name}Converter", str(number.kind), _plain(number.write_exact))
        for name, number in KINDS.items()
    }
)
