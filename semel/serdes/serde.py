"""Serdes by name: bytes of a record to Arrow columns and Python values, and back.

A column of bytes becomes ``binary``, of ``"string"`` and ``"json"`` text, of ``"long"`` and ``"double"`` numbers in
Kafka's big-endian form. JSON stays text in Arrow; functions of single records see it parsed. A column without a serde
is serialised by its type: bytes and text as they are, everything else as JSON.

Others are two functions for single values (:class:`ValueSerde`), such as those with a registry.

Texts and JSON are those of Python and Arrow: topics and stores hold them. Kafka Connect's, in ``text`` and ``json``,
write some numbers, times and bytes in another way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semel.errors import ConfigError
from semel.serdes.columns import is_text_or_bytes, whole
from semel.serdes.numbers import NUMBERS

__all__ = ["SERDES", "Serde", "ValueSerde", "check_serde", "decode", "encode", "from_python", "own", "to_python"]


@dataclass(frozen=True)
class ValueSerde:
    """A serde of two functions, for single values. In Arrow its values stay bytes.

    ``write`` and ``read`` raise ``ValueError`` or ``TypeError`` for what they refuse. Null is never given to them.
    """

    name: str
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]

    def __str__(self) -> str:
        return self.name


def own(write: Callable[[Any], bytes], read: Callable[[bytes], Any], name: str = "") -> ValueSerde:
    """Return a serde of two functions: from a value to bytes, and back. ``name`` is for messages."""
    return ValueSerde(name or getattr(write, "__name__", "its serialisation"), write, read)


Serde = str | ValueSerde | None
SERDES = ("bytes", "string", "json", "long", "double")
_NUMBERS = {"long": NUMBERS["Long"], "double": NUMBERS["Double"]}
_WITH_A_REGISTRY = ("avro", "json_schema", "protobuf")


def check_serde(serde: Serde, where: str) -> None:
    """Raise :class:`ConfigError` for what is no serde."""
    if isinstance(serde, ValueSerde) or serde is None or serde in SERDES:
        return
    if serde in _WITH_A_REGISTRY:
        raise ConfigError(
            f"{where}: {serde!r} needs a registry. Nothing was read. Give semel.streams.{serde}(…), with the address of"
            " the registry.",
            tag="SERDE",
        )
    raise ConfigError(
        f"{where}: {serde!r} is no serialisation. Nothing was read. Give one of {', '.join(SERDES)}, or one that"
        " semel.streams.own makes.",
        tag="SERDE",
    )


def decode(column: Any, serde: Serde) -> Any:
    """Return a column of bytes in the type of its serde. Raise ``ValueError`` for bytes that do not fit."""
    column = whole(column)
    if serde in (None, "bytes") or isinstance(serde, ValueSerde):
        return column.cast(pa.binary())
    if isinstance(serde, str) and serde in _NUMBERS:
        return _NUMBERS[serde].read(column.cast(pa.binary()))
    return column.cast(pa.string())


def encode(column: Any, serde: Serde) -> Any:
    """Return a column as bytes. Raise ``ValueError`` for values that the serde refuses."""
    column = whole(column)
    kind = column.type
    if isinstance(serde, str) and serde in _NUMBERS:
        return _NUMBERS[serde].write(column.cast(_NUMBERS[serde].kind))
    if is_text_or_bytes(kind) or pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.binary())
    if serde in ("bytes", "string") or isinstance(serde, ValueSerde):
        if serde != "string":
            raise ValueError(f"a column of {kind} is not bytes")
        return pc.cast(column, pa.string()).cast(pa.binary())
    return _json(column).cast(pa.binary())


def to_python(column: Any, serde: Serde) -> list[Any]:
    """Return the values for a function of single records."""
    values: list[Any] = column.to_pylist()
    if isinstance(serde, ValueSerde):
        return [None if value is None else serde.read(value) for value in values]
    return [None if value is None else json.loads(value) for value in values] if serde == "json" else values


def from_python(values: Sequence[Any], serde: Serde) -> Any:
    """Return the results of functions of records as a column. Raise ``ValueError`` for values that do not fit."""
    if isinstance(serde, ValueSerde):
        return pa.array([None if value is None else serde.write(value) for value in values], pa.binary())
    if serde == "json":
        return pa.array([None if value is None else _dumps(value) for value in values], pa.string())
    kinds = {"bytes": pa.binary(), "string": pa.string(), "long": pa.int64(), "double": pa.float64()}
    return pa.array(values, kinds.get(serde or "bytes"))


def _json(column: Any) -> Any:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return pc.cast(column, pa.string())
    return pa.array([None if value is None else _dumps(value) for value in column.to_pylist()], pa.string())


def _dumps(value: Any) -> str:
    try:
        return _encode(value)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


#: NaN and infinities are refused: they are no JSON.
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain).encode
