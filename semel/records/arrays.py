"""Conversion between Arrow arrays and numpy arrays by their buffers, not value by value.

pyarrow's own ways from one to the other (``pa.array``, ``pa.scalar``, ``to_numpy``) load pandas when the first of them
is used. That takes half a second in each new Python worker before its first row, so code that runs in workers uses
buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semel.errors import Unsupported
from semel.records.varint import Ints

__all__ = ["LARGEST", "array", "binary", "check_size", "joined", "nulls", "numbers", "repeated", "validity"]

#: Bytes that one binary or string array can hold: its offsets are 32 bits wide, and pyarrow lets them wrap unseen.
LARGEST = 2**31 - 1


def check_size(sizes: Sequence[int] | NDArray[np.signedinteger[Any]]) -> None:
    """Raise :class:`Unsupported` if values of these sizes are more than one array can hold."""
    total = int(np.sum(sizes, dtype=np.int64))
    if total > LARGEST:
        raise Unsupported(
            f"values of {total} bytes were to be put in one Arrow array, which holds {LARGEST} at most. Nothing of"
            " them was read or written. Make the values smaller, or hand over fewer rows at a time.",
            tag="ARROW_LIMIT",
        )


def array(values: NDArray[Any], kind: Any) -> Any:
    """Return the Arrow array of these values without a copy.

    ``kind`` has the same width and the same binary form as the numpy values.
    """
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def joined(parts: Sequence[bytes | memoryview], kind: Any, sizes: Sequence[int] | Ints | None = None) -> Any:
    """Return the binary or string array whose values are these parts. With ``sizes``, the values have these sizes and
    lie one after the other in the parts.

    The bytes are copied once.
    """
    sizes = [len(part) for part in parts] if sizes is None else sizes
    check_size(sizes)
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return pa.Array.from_buffers(kind, len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(parts))])


def binary(values: Sequence[bytes | None]) -> Any:
    """Return the binary array of these values, by its buffers: pyarrow's own way loads pandas, which takes a second."""
    texts = joined([value or b"" for value in values], pa.binary())
    present = validity(np.array([value is None for value in values], np.bool_))
    return pa.Array.from_buffers(texts.type, len(texts), [present, *texts.buffers()[1:]])


def repeated(text: str, count: int) -> Any:
    """Return the string array that holds a text ``count`` times."""
    value = text.encode()
    return joined([value * count], pa.string(), np.full(count, len(value)))


def numbers(integers: Any) -> Ints:
    """Return the values of an int64 Array without a copy. Values at null positions are undefined."""
    if not len(integers):
        return np.zeros(0, np.int64)
    # the buffer may be longer, and end anywhere: the children of a null struct share one
    return np.frombuffer(integers.buffers()[1], np.int64, len(integers), integers.offset * 8)


def nulls(data: Any) -> NDArray[np.bool_]:
    """Return a flag for each row of an Array: True for null."""
    flags = data.is_null()
    bits = np.frombuffer(flags.buffers()[1], np.uint8)
    return np.unpackbits(bits, bitorder="little")[flags.offset : flags.offset + len(flags)].view(np.bool_)


def validity(null: NDArray[np.bool_]) -> Any:
    """Return the validity buffer: a bit for each row, set where the row is not null."""
    return pa.py_buffer(np.packbits(~null, bitorder="little"))
