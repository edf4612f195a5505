"""Dead letters: records that a program could not work on, for a topic of their own, with headers that say why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from semel.records.record_headers import HEADERS

__all__ = ["dead_letter", "shown"]


def dead_letter(
    key: bytes | None, value: bytes | None, context: Mapping[str, Any], before: Sequence[Mapping[str, Any]] = ()
) -> pa.Table:
    """Return a row with key, value and headers: those that the record had ``before``, and those of its ``context``."""
    headers = [*before, *({"key": name, "value": shown(said)} for name, said in context.items())]
    columns = {"key": pa.array([key], pa.binary()), "value": pa.array([value], pa.binary())}
    return pa.table({**columns, "headers": pa.array([headers], HEADERS)})


def shown(value: Any) -> bytes | None:
    """Return bytes as they are, and other values as Python shows them."""
    if value is None or isinstance(value, bytes):
        return value
    try:
        text = str(value)
    except (ValueError, RecursionError):  # a whole number of thousands of digits, or lists in lists
        text = f"a {type(value).__name__} that is too large or too deep to be shown"
    return text.encode(errors="replace")
