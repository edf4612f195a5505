"""JSON that others wrote, read strictly: one object or array, no other numbers than JSON has, nothing nested too deep.

What is kept in topics and checkpoints, or comes with options, may be damaged, or another program may have written it.
Python's own reader takes ``NaN``, makes infinity of ``1e999``, and answers deep nesting with :class:`RecursionError`;
here each of these is a :class:`ValueError`, like any other text that is no JSON.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn, TypeVar

__all__ = ["is_version", "of_kind", "read_array", "read_object", "write_object"]

T = TypeVar("T")


def read_object(text: str | bytes) -> dict[str, Any]:
    """One JSON object. Raises ``ValueError`` for anything else."""
    value = _read(text)
    if type(value) is not dict:
        raise ValueError(f"it is no JSON object but {_shortened(value)}")
    return value


def read_array(text: str | bytes) -> list[Any]:
    """One JSON array. Raises ``ValueError`` for anything else."""
    value = _read(text)
    if type(value) is not list:
        raise ValueError(f"it is no JSON array but {_shortened(value)}")
    return value


def _read(text: str | bytes) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def write_object(value: dict[str, Any]) -> bytes:
    """Return the canonical text: sorted keys, no blanks, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def of_kind(kind: type[T], value: object) -> T:
    """``value``, if it is of exactly this kind (True is no int). Raises ``TypeError``."""
    if type(value) is not kind:
        raise TypeError(f"{_shortened(value)} is no {kind.__name__}")
    return value


def is_version(version: object, supported: int) -> bool:
    """Return whether a document's version is this one. ``true`` and ``1.0`` are not."""
    return type(version) is int and version == supported


def _shortened(value: object) -> str:
    text = f"{value!r:.200}" if not isinstance(value, list | dict) else type(value).__name__
    return text if len(text) < 200 else f"{text}…"


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number in JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is beyond all numbers")
    return value
