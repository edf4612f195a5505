"""Arrow columns of any layout as Arrow views: the place of each row's bytes, without moving them.

A view is 16 bytes: the length, then the bytes themselves up to 12 of them, else their first four, the number of the
buffer and the position in it. Every layout is brought to that form first: binary or string, 32-bit or large offsets,
views, slices, several chunks, nulls with bytes under them. So the code that follows has one case, and no chunk of a
table is copied to join it to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semel.errors import ConfigError
from semel.records.arrays import nulls, validity
from semel.records.varint import Ints

__all__ = [
    "INLINE",
    "VIEW",
    "Column",
    "Views",
    "absent",
    "chunks_of",
    "column",
    "concatenated",
    "is_bytes",
    "reordered",
]

Views = NDArray[np.int32]
#: int32 words of a view: length, then either 12 inline bytes, or prefix, buffer and position.
VIEW = 4
INLINE = 12

#: A view's position is an int32, so a column's buffers are taken in stretches below that.
_STRETCH = 1 << 30


@dataclass(frozen=True, slots=True)
class Column:
    """The rows of one column. Null rows have the view of an empty string and the length -1."""

    views: Views
    buffers: tuple[Any, ...]
    lengths: Ints

    @property
    def all_null(self) -> bool:
        """True if the column holds nulls only."""
        return int(self.lengths.max(initial=-1)) < 0

    def slice(self, start: int, stop: int) -> Column:
        """Return the rows from ``start`` to before ``stop``."""
        return Column(self.views[start:stop], self.buffers, self.lengths[start:stop])


def column(data: Any, name: str, *, stretch: int = _STRETCH) -> Column:
    """Return the rows of a pyarrow Array or ChunkedArray of text or bytes."""
    kind = data.type
    if pa.types.is_null(kind):
        return absent(len(data))
    if not is_bytes(kind):
        raise ConfigError(
            f"column {name!r} has the type {kind}; it must be binary or string. Nothing was written. Cast or"
            " serialise it first.",
            tag="COLUMN_TYPE",
        )
    return concatenated([_part(part) for chunk in chunks_of(data) for part in _stretches(chunk, stretch)])


def absent(rows: int) -> Column:
    """Return a column of nulls."""
    return Column(np.zeros((rows, VIEW), np.int32), (), np.full(rows, -1, np.int64))


def chunks_of(data: Any) -> list[Any]:
    """Return the plain arrays in an Array or a ChunkedArray."""
    return list(data.chunks) if isinstance(data, pa.ChunkedArray) else [data]


def concatenated(parts: Sequence[Column]) -> Column:
    """Return the rows of all parts. Their bytes are not copied."""
    if len(parts) == 1:
        return parts[0]
    views = np.concatenate([np.zeros((0, VIEW), np.int32), *(part.views for part in parts)])
    lengths = np.concatenate([np.zeros(0, np.int64), *(part.lengths for part in parts)])
    buffers: list[Any] = []
    row = 0
    for part in parts:
        after = row + len(part.lengths)
        if buffers and part.buffers:
            views[row:after, 2] += np.where(part.lengths > INLINE, len(buffers), 0).astype(np.int32)
        buffers += part.buffers
        row = after
    return Column(views, tuple(buffers), lengths)


def reordered(data: Any, name: str, order: Ints) -> Any:
    """Return the rows of a column of text or bytes in this order, as an array of views. Their bytes stay where they
    are: ``take`` would copy each, and what is encoded is copied once more.
    """
    rows = column(data, name)
    # a view is 16 bytes, and numpy moves them as one number
    views = np.ascontiguousarray(rows.views).view(np.complex128).ravel()[order]
    null = rows.lengths[order] < 0
    valid = validity(null) if null.any() else None
    return pa.Array.from_buffers(pa.binary_view(), len(order), [valid, pa.py_buffer(views), *rows.buffers])


def is_bytes(kind: Any) -> bool:
    """Return whether :func:`column` takes a column of this type."""
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_string(kind)
        or types.is_large_binary(kind)
        or types.is_large_string(kind)
        or types.is_binary_view(kind)
        or types.is_string_view(kind)
    )


def _part(array: Any) -> Column:
    viewed = array.cast(pa.binary_view())
    validity, raw, *buffers = viewed.buffers()
    views = np.frombuffer(raw, np.int32).reshape(-1, VIEW)[viewed.offset : viewed.offset + len(viewed)]
    lengths = views[:, 0].astype(np.int64)
    if validity is not None and viewed.null_count:
        null = nulls(viewed)
        views = np.where(null[:, None], np.int32(0), views)
        lengths[null] = -1
    return Column(views, tuple(buffers), lengths)


def _stretches(array: Any, stretch: int) -> list[Any]:
    """Return pieces of an array whose buffers an int32 can point into. Only arrays with 64-bit offsets are cut."""
    kind = array.type
    if not (pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)) or not len(array):
        return [array]
    _, raw, data = array.buffers()
    if data is None or data.size <= stretch:
        return [array]
    offsets = np.frombuffer(raw, np.int64)[array.offset : array.offset + len(array) + 1]
    cuts = [0]
    while cuts[-1] < len(array):
        after = int(np.searchsorted(offsets, offsets[cuts[-1]] + stretch, side="right")) - 1
        cuts.append(max(after, cuts[-1] + 1))
    return [_rebased(array.slice(start, stop - start)) for start, stop in pairwise(cuts)]


def _rebased(array: Any) -> Any:
    """Return the same rows over only the bytes that they use."""
    _, raw, data = array.buffers()
    offsets = np.frombuffer(raw, np.int64)[array.offset : array.offset + len(array) + 1]
    used = data.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    validity = None
    if array.null_count:
        validity = array.is_valid().buffers()[1]
    return pa.Array.from_buffers(pa.large_binary(), len(array), [validity, pa.py_buffer(offsets - offsets[0]), used])
