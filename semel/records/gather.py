"""Bytes scattered over a buffer, gathered into an Arrow binary column by one copy.

Arrow views are made of positions and lengths, and cast: Arrow copies each value once. It measured twice as fast as
``take`` on an array with gaps. The views live only between the two, so the four bytes of a long value that a view
repeats are left out: the cast does not read them.
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
    """Views of ``lengths`` bytes (-1 for null) from ``positions`` in ``area``, which will be the buffer number
    ``buffer``.

    Nothing but nulls is one view many times, which cannot be written to.
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
    """The binary column of such views. A length of -1 is a null. The views are used up."""
    valid = None
    if views[:, 0].min(initial=0) < 0:
        null = views[:, 0] < 0
        if null.all():
            return pa.nulls(len(views), pa.binary())
        views[null] = 0
        valid = validity(null)
    return copied(views, valid, buffers)


def copied(views: Views, valid: Any, buffers: list[Any]) -> Any:
    """The bytes of these views one behind the other, as a binary array. A null's view has the length 0.

    Raises :class:`~semel.errors.Unsupported` for 2 GiB and more: the cast would let its offsets wrap.
    """
    check_size(views[:, 0])
    return pa.Array.from_buffers(pa.binary_view(), len(views), [valid, pa.py_buffer(views), *buffers]).cast(pa.binary())


def gather(area: NDArray[np.uint8], positions: Ints, lengths: Ints) -> Any:
    """The binary column of ``lengths`` bytes (-1 for null) from ``positions``."""
    return binary(views_at(area, positions, lengths), [pa.py_buffer(area)])
