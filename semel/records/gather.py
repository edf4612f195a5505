"""Bytes scattered over a buffer, copied once into an Arrow binary column.

Positions and lengths become Arrow views, and a cast makes Arrow copy each value once. It measured twice as fast as
``take`` on an array with gaps. A view repeats the first four bytes of a long value. They are left out here: the cast
does not read them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semel.records.arrays import check_size, validity
from semel.records.columns import INLINE, VIEW, Views
from semel.records.varint import Ints

__all__ = ["binary", "copied", "gather", "views_at"]

_STEPS = np.arange(INLINE)
_NULL = np.array([-1, 0, 0, 0], np.int32)


def views_at(area: NDArray[np.uint8], positions: Ints, lengths: Ints, buffer: int = 0) -> Views:
    """Return views of ``lengths`` bytes (-1 for null) from ``positions`` in ``area``, which will be the buffer number
    ``buffer``.

    If all are null, the result is one view repeated, and is read-only.
    """
    if lengths.max(initial=-1) < 0:
        return np.broadcast_to(_NULL, (len(lengths), VIEW))
    views = np.empty((len(positions), VIEW), np.int32)
    views[:, 0] = lengths
    views[:, 1] = 0
    views[:, 2] = buffer
    views[:, 3] = positions
    short = np.flatnonzero((lengths <= INLINE) & (lengths > 0)) if lengths.min() <= INLINE else ()
    if len(short):
        size = lengths[short]
        inline = area.take(positions[short][:, None] + _STEPS, mode="clip") * (size[:, None] > _STEPS)
        views[short, 1:] = inline.astype(np.uint8).view(np.int32)
    return views


def binary(views: Views, buffers: list[Any]) -> Any:
    """Return the binary column of these views. A length of -1 is a null. The views are changed: do not use them
    again.
    """
    valid = None
    if views[:, 0].min(initial=0) < 0:
        null = views[:, 0] < 0
        if null.all():
            return pa.nulls(len(views), pa.binary())
        views[null] = 0
        valid = validity(null)
    return copied(views, valid, buffers)


def copied(views: Views, valid: Any, buffers: list[Any]) -> Any:
    """Return the bytes of these views one after the other, as a binary array. A null's view has the length 0.

    Raise :class:`~semel.errors.Unsupported` for 2 GiB and more: the cast would let its offsets wrap.
    """
    check_size(views[:, 0])
    return pa.Array.from_buffers(pa.binary_view(), len(views), [valid, pa.py_buffer(views), *buffers]).cast(pa.binary())


def gather(area: NDArray[np.uint8], positions: Ints, lengths: Ints) -> Any:
    """Return the binary column of ``lengths`` bytes (-1 for null) from ``positions``."""
    return binary(views_at(area, positions, lengths), [pa.py_buffer(area)])
