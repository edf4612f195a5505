"""Answers of brokers, decoded by kafka-python, and refused if they are null in a place that is never null in Kafka.

kafka-python accepts a null for anything that has a length; the code that reads the answer would then fail anywhere. Not
noticed: an answer that is cut off in its last text, which kafka-python takes as a shorter one. A broken connection
cannot cause that, since the whole frame was read by then.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

__all__ = ["decode", "response_type"]

#: Kinds of fields that can be null on the wire. A topic's id can too: kafka-python gives None for the zero id.
_WITH_LENGTH = ("string", "bytes", "records")
#: A field's name, a flag for nullable, and the fields that must not be null in each of its rows.
_Field = tuple[str, bool, tuple[Any, ...]]


def response_type(request_type: Any) -> Any:
    """Return kafka-python's class of the answers to a request."""
    return getattr(sys.modules[request_type.__module__], request_type.__name__.removesuffix("Request") + "Response")


def decode(kind: Any, body: memoryview, version: int) -> Any:
    """Return the decoded answer. Raise ``ValueError``, ``IndexError``, ``OverflowError`` or ``struct.error`` for
    damage.
    """
    try:
        answer = kind.decode(body, version=version)
    except AssertionError as error:  # from kafka-python, about tagged fields
        raise ValueError(f"{str(error) or 'its tagged fields are not in order'}") from None
    _check_no_nulls(answer, _checked(kind, version))
    return answer


@cache
def _checked(kind: Any, version: int) -> tuple[_Field, ...]:
    return _fields(kind._struct, version)


def _fields(struct: Any, version: int) -> tuple[_Field, ...]:
    fields = []
    for field in struct._fields:
        if not field.for_version_q(version) or field.tagged_field_q(version):
            continue
        rows = _fields(field, version) if field.is_struct_array() else ()
        nullable = field.nullable_for_version_q(version) or not (field.is_array() or field.type_str in _WITH_LENGTH)
        if rows or not nullable:
            fields.append((field.name, nullable, rows))
    return tuple(fields)


def _check_no_nulls(value: Any, fields: tuple[_Field, ...]) -> None:
    for name, nullable, rows in fields:
        held = getattr(value, name)
        if held is None:
            if not nullable:
                raise ValueError(f"{name} is null")
        elif rows:
            for row in held:
                _check_no_nulls(row, rows)
