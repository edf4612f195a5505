"""The headers of records: (key, value) pairs as bytes after each record's value, and as an Arrow column.

Neither way loops over records in Python while many records have headers. Packing treats all headers of all records as
one column. Reading goes header by header in lockstep over all records. The few records with very many headers are
finished one by one. Keys that are not UTF-8 are read as in Java, with U+FFFD for bytes that cannot be decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semel.errors import ConfigError
from semel.records.arrays import array, joined, nulls, numbers
from semel.records.assembly import Assembly
from semel.records.codecs import Damaged
from semel.records.columns import Column, chunks_of, column, concatenated
from semel.records.gather import gather
from semel.records.row_label import RowLabel
from semel.records.varint import Ints, pack, read, read_one, zigzag

__all__ = ["HEADERS", "Headers", "header_pairs", "headers_column", "pack_headers", "read_headers"]

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
#: The headers of one record, in their order: the key and the value of each.
Headers = Sequence[tuple[str, bytes | None]]

#: With fewer records in step, numpy's fixed cost per operation is more than that of a Python loop.
_LOCKSTEP = 16
#: Bytes of headers that are joined at once.
_STRETCH = 1 << 29


def header_pairs(headers: Iterable[Mapping[str, Any]] | None) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers of one row of a column."""
    return tuple((one["key"], one["value"]) for one in headers or ())


def headers_column(headers: Iterable[Headers]) -> Any:
    """Return the headers of rows as a column."""
    return pa.array([[{"key": key, "value": value} for key, value in row] for row in headers], HEADERS)


def pack_headers(data: Any, label: RowLabel | None = None) -> Column:
    """Return, for each row of a headers column, the bytes from its header count to the record's end.

    A null list has no headers.
    """
    kind = data.type
    if not pa.types.is_null(kind) and not _are_headers(kind):
        raise ConfigError(
            f"column 'headers' has the type {kind}; it must be list<struct<key: string, value: binary>>. Nothing was"
            " written.",
            tag="COLUMN_TYPE",
        )
    parts: list[Column] = []
    row = 0
    for chunk in chunks_of(data):
        for start, stop in _stretches(chunk):
            parts.append(_pack(chunk.slice(start, stop - start), row + start, label))
        row += len(chunk)
    return concatenated(parts)


def _are_headers(kind: Any) -> bool:
    if not pa.types.is_list(kind) and not pa.types.is_large_list(kind):
        return False
    return bool(pa.types.is_struct(kind.value_type)) and [field.name for field in kind.value_type] == ["key", "value"]


def _stretches(lists: Any, stretch: int = _STRETCH) -> list[tuple[int, int]]:
    """Return ranges of rows whose headers fit in one buffer with 32-bit offsets. Ranges are halved until they fit,
    since headers may have any sizes.
    """
    ranges: list[tuple[int, int]] = []
    left = [(0, len(lists))]
    while left:
        start, stop = left.pop()
        if stop - start > 1 and lists.slice(start, stop - start).nbytes > stretch:
            middle = (start + stop) // 2
            left += [(middle, stop), (start, middle)]
        else:
            ranges.append((start, stop))
    return ranges


def _pack(data: Any, row: int, label: RowLabel | None) -> Column:
    if pa.types.is_null(data.type):
        return _joined(np.zeros(len(data), np.int64), None)
    lengths = data.value_lengths().cast(pa.int64())
    counts = np.where(nulls(lengths), 0, numbers(lengths))
    pairs = data.flatten()
    keys, values = pairs.flatten()
    if keys.null_count:
        first = int(np.flatnonzero(nulls(keys))[0])
        row += int(np.searchsorted(np.cumsum(counts), first, side="right"))
        named = label or "row {}".format
        raise ConfigError(
            f"{named(row)} has a header without a key, which Kafka does not allow. Nothing of these rows was written."
            " Give it a key, or drop it.",
            tag="HEADER_KEY",
        )
    return _joined(counts, (column(keys, "headers.key"), column(values, "headers.value")))


def _joined(counts: Ints, pairs: tuple[Column, Column] | None) -> Column:
    """Join counts and headers apart, then interleave them as views: a count, its headers, the next count."""
    count, size = pack(zigzag(counts))
    prefixes = Assembly(len(counts))
    prefixes.field(count, size)
    if pairs is None or not int(counts.sum()):
        return _rows(*prefixes.join())
    headers = Assembly(len(pairs[0].lengths))
    for part in pairs:
        packed, size = pack(zigzag(part.lengths))
        headers.field(packed, size)
        headers.values(part)
    data, starts = headers.join()
    firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    rows = Assembly(len(counts))
    rows.values(_rows(*prefixes.join()))
    rows.values(_rows(data, starts[firsts]))
    return _rows(*rows.join())


def _rows(data: memoryview, starts: Ints) -> Column:
    offsets = pa.py_buffer(starts)
    return column(
        pa.Array.from_buffers(pa.large_binary(), len(starts) - 1, [None, offsets, pa.py_buffer(data)]), "headers"
    )


def read_headers(area: NDArray[np.uint8], positions: Ints, counts: Ints, ends: Ints) -> Any:
    """Return the headers column of records whose first header begins at ``positions``.

    Raise :class:`Damaged` if a header leaves its record, or the headers do not fill it.
    """
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    spans = np.zeros((int(first[-1]), 4), np.int64)
    active = np.flatnonzero(counts)
    at = positions[active]
    done = 0
    while len(active) >= _LOCKSTEP:
        at = _step(area, at, ends[active], spans, first[active] + done)
        done += 1
        going = counts[active] > done
        if not np.array_equal(at[~going], ends[active][~going]):
            raise Damaged("the headers of a record do not fill it")
        active, at = active[going], at[going]
    data = area.data
    for row, position in zip(active.tolist(), at.tolist(), strict=True):
        _finish(data, position, int(ends[row]), spans[first[row] + done : first[row + 1]])
    keys = _text(gather(area, spans[:, 0], spans[:, 1]))
    values = gather(area, spans[:, 2], spans[:, 3])
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(array(first.astype(np.int32), pa.int32()), pairs, type=HEADERS)


def _text(keys: Any) -> Any:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return joined([key.decode("utf-8", "replace").encode() for key in keys.to_pylist()], pa.string())


def _step(area: NDArray[np.uint8], at: Ints, ends: Ints, spans: Ints, rows: Ints) -> Ints:
    """Read one header of each record, and return the positions after them."""
    key_length, key = read(area, at, 5)
    value_length, value = read(area, key + np.maximum(key_length, 0), 5)
    after = value + np.maximum(value_length, 0)
    if ((key_length < 0) | (value_length < -1) | (after > ends)).any():
        raise Damaged("a header leaves its record")
    spans[rows] = np.stack([key, key_length, value, value_length], axis=1)
    return after


def _finish(data: memoryview, at: int, end: int, spans: Ints) -> None:
    """Read the remaining headers of one record into ``spans``."""
    for index in range(len(spans)):
        try:
            key_length, key = read_one(data, at, end)
            value_length, value = read_one(data, key + max(key_length, 0), end)
        except ValueError:
            raise Damaged("a header leaves its record") from None
        at = value + max(value_length, 0)
        if key_length < 0 or value_length < -1 or at > end:
            raise Damaged("a header leaves its record")
        spans[index] = (key, key_length, value, value_length)
    if at != end:
        raise Damaged("the headers of a record do not fill it")
