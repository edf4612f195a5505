"""Rows of bytes, built from short fields and whole values in one copy.

Each row is a few Arrow views: fields inline, values where they lie. Casting the views to binary makes Arrow copy them
one after the other. A value is copied only there on its way out. It measured faster than ``binary_join_element_wise``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semel.records.columns import INLINE, VIEW, Column
from semel.records.gather import copied
from semel.records.varint import Ints, Words

__all__ = ["Assembly"]


@dataclass(slots=True)
class _Inline:
    """Adjacent fields of at most 12 bytes together, the first 8 in ``low``."""

    low: Words
    high: Words | None
    size: NDArray[np.uint8]
    longest: int


class Assembly:
    """A builder of ``rows`` rows. Add the parts of each row from left to right, then call :meth:`join`."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._parts: list[_Inline | Column] = []

    def field(self, packed: Words, size: NDArray[np.uint8]) -> None:
        """Add a field of ``size`` bytes to each row: at most 8 bytes, the first one lowest in ``packed``."""
        longest = int(size.max(initial=0))
        last = self._parts[-1] if self._parts else None
        if isinstance(last, _Inline) and last.longest + longest <= INLINE:
            shift = last.size.astype(np.uint64) * np.uint64(8)
            if last.longest + longest > 8:
                # numpy gives 0 for shifts by 64 and more, and unsigned differences below 0 are such shifts.
                high = np.right_shift(packed, np.uint64(64) - shift) | np.left_shift(packed, shift - np.uint64(64))
                last.high = high if last.high is None else last.high | high
            last.low = last.low | (packed << shift)
            last.size = last.size + size
            last.longest += longest
        else:
            self._parts.append(_Inline(packed, None, size, longest))

    def values(self, column: Column) -> None:
        """Add the bytes of a column. A null adds nothing."""
        self._parts.append(column)

    def join(self, tail: bytes = b"") -> tuple[memoryview, Ints]:
        """Return all rows one after the other, then ``tail`` (at most 12 bytes), and the position where each row
        begins. The last position is where ``tail`` begins.
        """
        width = len(self._parts)
        views = np.empty((self._rows * width + 1, VIEW), np.int32)
        table = views[:-1].reshape(self._rows, width, VIEW)
        buffers: list[Any] = []
        for index, part in enumerate(self._parts):
            if isinstance(part, _Inline):
                _put_inline(table[:, index], part)
            else:
                table[:, index] = part.views
                if buffers and part.buffers:
                    table[:, index, 2] += np.where(part.lengths > INLINE, len(buffers), 0).astype(np.int32)
                buffers += part.buffers
        views[-1] = np.frombuffer(len(tail).to_bytes(4, "little") + tail.ljust(INLINE, b"\0"), np.int32)
        _, offsets, data = copied(views, None, buffers).buffers()
        starts = np.frombuffer(offsets, np.int32)[0 : len(views) : width].astype(np.int64)
        return memoryview(data), starts


def _put_inline(target: Any, part: _Inline) -> None:
    target[:, 0] = part.size
    target[:, 1:3] = part.low.view(np.int32).reshape(-1, 2)
    target[:, 3] = 0 if part.high is None else part.high
