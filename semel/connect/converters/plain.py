"""Text and bytes, which need no conversion but a check: ``StringConverter`` and ``ByteArrayConverter``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pyarrow as pa

from semel.errors import ConfigError

__all__ = ["BYTES", "STRING", "WITHOUT_EFFECT", "Converter", "check_plain", "refuse_unknown"]

#: Takes a column (with its name, for the message) to one of bytes.
Converter = Callable[[Any, str], Any]

#: Options that Kafka Connect's converters have, and that change nothing here.
WITHOUT_EFFECT = frozenset({"plugin.version", "schemas.cache.size"})
_ENCODING = "converter.encoding"
_TEXT = (pa.string(), pa.large_string(), pa.string_view())
_BINARY = (pa.binary(), pa.large_binary(), pa.binary_view())


def check_plain(options: Mapping[str, str], setting: str, *, text: bool) -> None:
    """Check the options of a converter for text or for bytes. Raise :class:`ConfigError` for one that it has not.

    Text and bytes have no schema: what is said of one is passed over, as Kafka does.
    """
    refuse_unknown(options, {"schemas.enable", _ENCODING} if text else {"schemas.enable"}, setting)
    if options.get(_ENCODING, "UTF-8").upper() not in ("UTF-8", "UTF8"):
        raise ConfigError(
            f"{setting}.{_ENCODING}={options[_ENCODING]:.100} is not there: text is written as UTF-8. Nothing was read"
            " or written. Remove it.",
            tag="CONVERTER",
        )


def refuse_unknown(options: Mapping[str, str], known: Collection[str], setting: str) -> None:
    """Raise :class:`ConfigError` for the first option that is not among the known ones."""
    for name in sorted(options.keys() - WITHOUT_EFFECT - set(known)):
        raise ConfigError(
            f"{setting}.{name:.200} is not an option of this converter. Nothing was read or written. Correct or"
            " remove it.",
            tag="CONVERTER",
        )


def _string(column: Any, name: str) -> Any:
    """Text as UTF-8. Bytes are taken for text if they are UTF-8: a source of files need not decode what it reads."""
    if column.type == pa.null():
        return column.cast(pa.binary())
    if column.type not in (*_TEXT, *_BINARY):
        raise _refused("StringConverter", "text", column, name)
    try:
        if column.type in _BINARY:
            column.cast(pa.large_string() if column.type == pa.large_binary() else pa.string())
        else:
            column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ConfigError(
            f"a {name} is not text in UTF-8 ({error}), and StringConverter writes text. Nothing of this poll is"
            " visible. Use ByteArrayConverter to write the bytes as they are.",
            tag="NOT_TEXT",
        ) from None
    return column


def _bytes(column: Any, name: str) -> Any:
    """Bytes as they are."""
    if column.type == pa.null():
        return column.cast(pa.binary())
    if column.type not in _BINARY:
        raise _refused("ByteArrayConverter", "bytes", column, name)
    return column


def _refused(converter: str, kind: str, column: Any, name: str) -> ConfigError:
    return ConfigError(
        f"a {name} is {column.type}, and {converter} writes {kind}. Nothing of this poll is visible. Choose another"
        f" {name}.converter, or have the connector give {kind}.",
        tag="WRONG_TYPE",
    )


STRING: Converter = _string
BYTES: Converter = _bytes
