"""Arrow timestamps of any unit and zone, or whole milliseconds, as milliseconds since the epoch, as Kafka stores them.

Finer units are rounded down. Times before 1970 are refused, except -1, which is Kafka's "no timestamp". Times after the
year 294246 are refused too: a timestamp in microseconds cannot hold them.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa

from semel.errors import ConfigError
from semel.records.arrays import nulls, numbers
from semel.records.columns import chunks_of
from semel.records.row_label import RowLabel
from semel.records.varint import Ints

__all__ = ["LATEST", "TimestampOverflow", "milliseconds"]

#: The latest millisecond that a timestamp in microseconds can hold.
LATEST = (2**63 - 1) // 1000

#: The reaction of a reader to a timestamp that it cannot hold: stop, or give null instead.
TimestampOverflow = Literal["fail", "null"]

#: Units in a millisecond, and milliseconds in a unit.
_FINER = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_COARSER = {"s": 1_000}


def milliseconds(data: Any, rows: int, now_ms: int, label: RowLabel | None = None) -> Ints:
    """Return a number for each of ``rows`` rows. It is ``now_ms`` for nulls, and for all rows if there is no column."""
    if data is None or pa.types.is_null(data.type):
        return np.full(rows, now_ms, np.int64)
    unit = _unit(data.type)
    parts = [_chunk(chunk, unit, now_ms) for chunk in chunks_of(data)]
    result = parts[0] if len(parts) == 1 else np.concatenate(parts)
    wrong = (result < -1) | (result > LATEST)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        named = label or "row {}".format
        raise ConfigError(
            f"the timestamp of {named(row)} is {int(result[row])} ms since the epoch. It must not be before 1970 (only"
            " -1 may stand for no time), or after the year 294246. A number that large is often in nanoseconds. Nothing"
            " was written. Correct it, or leave it null for the current time.",
            tag="TIMESTAMP_RANGE",
        )
    return result


def _unit(kind: Any) -> str:
    if pa.types.is_timestamp(kind):
        return str(kind.unit)
    if pa.types.is_int64(kind):
        return "ms"
    raise ConfigError(
        f"column 'timestamp' has the type {kind}; it must be a timestamp, or milliseconds since the epoch as int64."
        " Nothing was written.",
        tag="COLUMN_TYPE",
    )


def _chunk(array: Any, unit: str, now_ms: int) -> Ints:
    whole = array.cast(pa.int64())
    null = nulls(whole) if whole.null_count else None
    raw = numbers(whole)
    if unit in _COARSER:
        factor = _COARSER[unit]
        # clip before it could overflow: it stays out of range, so it is still refused
        raw = np.clip(raw, -2, LATEST // factor + 1) * factor
    elif _FINER[unit] > 1:
        raw = raw // _FINER[unit]
    return raw if null is None else np.where(null, now_ms, raw)
