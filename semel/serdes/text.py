"""Text as UTF-8, and bytes as they are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from semel.serdes.columns import is_text_or_bytes, whole
from semel.serdes.java_text import java_text
from semel.serdes.java_value import java_string
from semel.serdes.schemas.schema import Schema
from semel.serdes.unfit import NotText, WrongType

__all__ = ["as_bytes", "bytes_value", "checked_text", "encoded", "text_value", "write_bytes", "write_text"]

_BINARY = (pa.binary(), pa.large_binary(), pa.binary_view())
_LARGE = (pa.large_string(), pa.large_binary())


def as_bytes(column: Any) -> Any:
    """Return text or bytes as bytes, without copying them."""
    return column.cast(pa.large_binary() if column.type in _LARGE else pa.binary())


def checked_text(column: Any) -> Any:
    """Return text or bytes as text. Raise :class:`NotText` for what is not UTF-8.

    A source of files need not decode what it reads, and its text is checked here.
    """
    try:
        if column.type in _BINARY:
            return column.cast(pa.large_string() if column.type in _LARGE else pa.string())
        column.validate(full=True)
    except pa.ArrowInvalid:
        raise NotText(_first_bad(column)) from None
    return column


def _first_bad(column: Any) -> bytes:
    """Return the first value that is not UTF-8."""
    for value in as_bytes(column).to_pylist():
        try:
            (value or b"").decode()
        except UnicodeDecodeError:
            return bytes(value)
    return b""


def write_text(column: Any) -> Any:
    """Write text as UTF-8, bytes if they are that, and all else as Java shows it."""
    column = whole(column)
    return as_bytes(checked_text(column) if is_text_or_bytes(column.type) else java_text(column))


def write_bytes(column: Any) -> Any:
    """Write bytes as they are, and text as UTF-8."""
    column = whole(column)
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.binary())
    if not is_text_or_bytes(column.type):
        raise WrongType(column.type)
    return as_bytes(column)


def text_value(schema: Schema | None, value: Any) -> bytes | None:
    """Write one value as :func:`write_text` does."""
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            str(value, "utf-8")
        except UnicodeDecodeError:
            raise NotText(bytes(value)) from None
        return bytes(value)
    return None if value is None else encoded(value if type(value) is str else java_string(schema, value))


def bytes_value(_: Schema | None, value: Any) -> bytes | None:
    """Write one value as :func:`write_bytes` does."""
    if value is None or isinstance(value, bytes | bytearray | memoryview):
        return None if value is None else bytes(value)
    if not isinstance(value, str):
        raise WrongType(type(value).__name__)
    return encoded(value)


def encoded(text: str) -> bytes:
    """Return text as UTF-8. Raise :class:`NotText` for halves of characters."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise NotText(text.encode(errors="backslashreplace")) from None
