"""Text and bytes: ``StringConverter`` and ``ByteArrayConverter``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pyarrow as pa

from semel.connect.converters.java_text import java_text
from semel.connect.converters.nested import whole
from semel.errors import ConfigError
from semel.settings import not_yet, unknown

__all__ = [
    "BYTES",
    "STRING",
    "WITHOUT_EFFECT",
    "Converter",
    "as_bytes",
    "check_plain",
    "checked_text",
    "refuse_unknown",
]

#: Takes a column and its field (for the name, and whether it may be null) to one of bytes.
Converter = Callable[[Any, pa.Field], Any]

#: Options that Kafka Connect's converters have, and that change nothing here.
WITHOUT_EFFECT = frozenset({"plugin.version", "schemas.cache.size"})
_ENCODING = "converter.encoding"
_TEXT = (pa.string(), pa.large_string(), pa.string_view())
_BINARY = (pa.binary(), pa.large_binary(), pa.binary_view())
_LARGE = (pa.large_string(), pa.large_binary())


def check_plain(options: Mapping[str, str], setting: str, *, text: bool) -> None:
    """Check the options of a converter for text or for bytes. Raise an error for one that it has not.

    Text and bytes have no schema: what is said of one is passed over, as Kafka does.
    """
    refuse_unknown(options, {"schemas.enable", _ENCODING} if text else {"schemas.enable"}, setting)
    if options.get(_ENCODING, "UTF-8").upper() not in ("UTF-8", "UTF8"):
        raise not_yet(f"{setting}.{_ENCODING}={options[_ENCODING]:.100}", "Remove it: text is written as UTF-8.")


def refuse_unknown(options: Mapping[str, str], known: Collection[str], setting: str) -> None:
    """Raise :class:`ConfigError` for the first option that is not among the known ones."""
    for name in sorted(options.keys() - WITHOUT_EFFECT - set(known)):
        raise unknown(f"{setting}.{name}", [f"{setting}.{one}" for one in known], what="option of this converter")


def as_bytes(column: Any) -> Any:
    """Return text or bytes as bytes, without copying them."""
    return column.cast(pa.large_binary() if column.type in _LARGE else pa.binary())


def checked_text(column: Any, name: str, converter: str) -> Any:
    """Return text or bytes as text. Raise :class:`ConfigError` for what is not UTF-8.

    A source of files need not decode what it reads, and its text is checked here.
    """
    try:
        if column.type in _BINARY:
            return column.cast(pa.large_string() if column.type in _LARGE else pa.string())
        column.validate(full=True)
    except pa.ArrowInvalid:
        raise ConfigError(
            f"a {name} is not text in UTF-8 ({_first_bad(column)!r:.100}), and {converter} writes text. Nothing of this"
            " poll is visible. Use ByteArrayConverter to write the bytes as they are.",
            tag="NOT_TEXT",
        ) from None
    return column


def _first_bad(column: Any) -> bytes:
    """Return the first value that is not UTF-8."""
    for value in as_bytes(column).to_pylist():
        try:
            (value or b"").decode()
        except UnicodeDecodeError:
            return bytes(value)
    return b""


def _string(column: Any, field: pa.Field) -> Any:
    """Text as UTF-8, bytes if they are that, and all else as Java shows it."""
    column = whole(column)
    if column.type in (*_TEXT, *_BINARY):
        return as_bytes(checked_text(column, field.name, "StringConverter"))
    return as_bytes(java_text(column, lambda kind: _refused("StringConverter", "text", kind, field.name)))


def _bytes(column: Any, field: pa.Field) -> Any:
    """Bytes as they are, and text as UTF-8."""
    column = whole(column)
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.binary())
    if column.type not in (*_TEXT, *_BINARY):
        raise _refused("ByteArrayConverter", "bytes", column.type, field.name)
    return as_bytes(column)


def _refused(converter: str, kind: str, found: Any, name: str) -> ConfigError:
    return ConfigError(
        f"a {name} is {found}, and {converter} writes {kind}. Nothing of this poll is visible. Choose another"
        f" {name}.converter, or have the connector give {kind}.",
        tag="WRONG_TYPE",
    )


STRING: Converter = _string
BYTES: Converter = _bytes
