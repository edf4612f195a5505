"""Rows on their way through a topology: Arrow record batches, and single records for functions that want them.

A row has ``key``, ``value`` and ``timestamp``, and where it came from: ``topic``, ``partition`` and ``offset``. What a
function of batches returns may have any columns; the time, the origin and the headers go on with it where it has as
many rows as what it was given. Rows have a column of headers only if one of them has some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from semel.errors import ConfigError, SemelError
from semel.records.record_headers import Headers, header_pairs
from semel.serdes.columns import whole
from semel.serdes.serde import Serde, from_python, to_python
from semel.streams.state.backend import DamagedStore

__all__ = [
    "CARRIED",
    "ORIGIN",
    "UNFIT",
    "WINDOW",
    "Record",
    "calling",
    "carry_on",
    "first_wrong",
    "from_result",
    "joined_batches",
    "misfit",
    "one_batch",
    "one_by_one",
    "place",
    "records",
    "returned",
    "times",
    "timestamps",
]

ORIGIN = ("topic", "partition", "offset")
#: What a row hands on to those that are made of it, beside its time.
CARRIED = (*ORIGIN, "headers")
WINDOW = ("window_start", "window_end")
#: What a value that does not fit its serialisation raises.
UNFIT = (ValueError, TypeError, OverflowError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class Record:
    """One record. ``timestamp`` is in milliseconds; the origin is None after an aggregation.

    After an aggregation in windows ``window_start`` and ``window_end`` are those of the record's window. ``headers``
    are pairs of a key and a value in bytes.
    """

    key: Any
    value: Any
    timestamp: int
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    window_start: int | None = None
    window_end: int | None = None
    headers: Headers = ()


def times(rows: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the times of rows, in milliseconds."""
    column = whole(rows["timestamp"])
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    found: np.ndarray[Any, np.dtype[np.int64]] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


def timestamps(milliseconds: Any) -> Any:
    """Return times in milliseconds as a column."""
    return pa.array(milliseconds, pa.int64()).cast(pa.timestamp("ms", "UTC"))


def records(rows: Any, key: Serde, value: Serde) -> Iterator[Record]:
    """One record after the other. Raises :class:`ConfigError` for the first key or value that is no JSON."""
    count = rows.num_rows
    keys, values = _parsed(rows, "key", key), _parsed(rows, "value", value)
    origin = [rows[name].to_pylist() if name in rows.schema.names else [None] * count for name in ORIGIN]
    has_headers = "headers" in rows.schema.names
    if has_headers or "window_start" in rows.schema.names:
        origin += [_milliseconds(rows[name]) if name in rows.schema.names else [None] * count for name in WINDOW]
    if has_headers:
        origin.append(list(map(header_pairs, rows["headers"].to_pylist())))
    for row in zip(keys, values, times(rows).tolist(), *origin, strict=True):
        yield Record(*row)


def _milliseconds(column: Any) -> list[int]:
    found: list[int] = column.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
    return found


def _parsed(rows: Any, name: str, serde: Serde) -> list[Any]:
    if name not in rows.schema.names:
        return [None] * rows.num_rows
    try:
        return to_python(rows[name], serde)
    except (ValueError, TypeError):
        raise misfit(rows, rows[name], serde, f"the {name}") from None


def misfit(
    rows: Any, column: Any, serde: Serde, what: str, read: Callable[[Any, Serde], Any] = to_python
) -> ConfigError:
    """Return the error for the first value of ``column`` that ``read`` refuses; it names the record in ``rows``."""
    at, error = first_wrong(column, lambda one: read(one, serde))
    return ConfigError(
        f"{what} of the record {place(rows, at)} is no {serde}: {error}. Nothing of this transaction is visible."
        " Correct the record or the serialisation, or read it as bytes, and leave such records out in map_batches.",
        tag="DESERIALIZATION",
    )


def first_wrong(values: Any, take: Callable[[Any], Any]) -> tuple[int, str]:
    """Return the number of the first value that ``take`` refuses, of a list, a column or rows, and what it says."""
    for at in range(len(values)):
        try:
            take(values[at : at + 1])
        except UNFIT as error:
            return at, str(error).splitlines()[0][:100]
    return 0, "it does not fit"


def place(rows: Any, at: int) -> str:
    """Return where a row comes from, in words."""
    if any(name not in rows.schema.names for name in ORIGIN):
        return f"with the key {rows['key'][at]}" if "key" in rows.schema.names else f"number {at} of its batch"
    return f"{rows['topic'][at]}-{rows['partition'][at]} at offset {rows['offset'][at]}"


def calling(function: Callable[..., Any], name: str, record: Record, *arguments: Any) -> Any:
    """Call a user's function. Raises :class:`ConfigError` that names the record it failed at, and what semel raises in
    it: a processor asks its stores.
    """
    try:
        return function(*arguments)
    except (SemelError, DamagedStore):
        raise
    except Exception as error:
        where = f"{record.topic}-{record.partition} at offset {record.offset}" if record.topic else f"key {record.key}"
        raise ConfigError(
            f"the function of {name} failed at {where}: {type(error).__name__}: {error}. Nothing of this transaction is"
            " visible. Correct the function or the record, then start again: it is read again.",
            tag="USER_FUNCTION",
        ) from error


def returned(values: list[Any], serde: Serde, name: str, where: Callable[[int], str]) -> Any:
    """Return what the function of a step has returned as a column. Raise :class:`ConfigError` where it does not fit;
    ``where`` says of which record the value with a number was made.
    """
    try:
        return from_python(values, serde)
    except UNFIT:
        at, said = first_wrong(values, lambda one: from_python(one, serde))
        raise ConfigError(
            f"the function of {name} returned what is not {serde} for {where(at)}: {said}. Nothing of this transaction"
            " is visible. Name what it returns by key= and value=, or correct it.",
            tag="SERDE",
        ) from None


def from_result(rows: Any, result: Any, name: str) -> Any:
    """Return the result of a function of batches as one batch with its time, origin and headers."""
    if isinstance(result, pa.Table):
        result = one_batch(result)
    if not isinstance(result, pa.RecordBatch):
        raise ConfigError(
            f"the function of {name} returned {type(result).__name__}, and not a pyarrow RecordBatch or Table. Nothing"
            " of this transaction is visible. Return the rows that it has made, or an empty batch.",
            tag="USER_FUNCTION",
        )
    return carry_on(rows, result, name)


def carry_on(rows: Any, result: Any, name: str) -> Any:
    """Give ``result`` the time, origin and headers of ``rows``, where it lacks them."""
    if result.num_rows == rows.num_rows:
        for column in ("timestamp", *CARRIED):
            if column not in result.schema.names and column in rows.schema.names:
                result = result.append_column(column, rows[column])
    elif "timestamp" not in result.schema.names:
        raise ConfigError(
            f"the function of {name} made {result.num_rows} rows of {rows.num_rows}, and they have no column timestamp."
            " Nothing of this transaction is visible. Give each row the timestamp of the row that it was made of, such"
            ' as batch["timestamp"].take(parents).',
            tag="USER_FUNCTION",
        )
    return result


def one_batch(table: Any) -> Any:
    """Return a table as one record batch."""
    table = table.combine_chunks()
    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def one_by_one(rows: Any) -> Iterator[Any]:
    """Yield batches of one row each."""
    return (rows.slice(at, 1) for at in range(rows.num_rows))


def joined_batches(batches: Sequence[Any]) -> Any:
    """Return the rows of all batches as one. A column may be of whole numbers in one, and of floats in another."""
    return one_batch(pa.concat_tables([pa.table(one) for one in batches], promote_options="permissive"))
