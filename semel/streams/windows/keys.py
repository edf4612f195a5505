"""A window in the keys of records: before the record's key in a store, after it in a changelog and an output topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.streams.cells import items

__all__ = ["BY_START", "StoreKeys", "WindowKeys"]

_WORD = 8


class StoreKeys(Protocol):
    """The written form of entries that have a time. The first 8 bytes of a store's key order its entries by it."""

    def in_changelog(self, stored: list[bytes]) -> list[bytes]:
        """Return the changelog's keys of a store's keys."""

    def from_changelog(self, keys: list[bytes]) -> list[bytes]:
        """Return the store's keys of a changelog's keys."""

    def of_key(self, keys: Any, key: bytes) -> Any:
        """Return which of a changelog's keys are those of a record's key."""

    def key(self, stored: bytes) -> bytes:
        """Return the record's key in a store's key."""

    def start(self, stored: bytes) -> int:
        """Return the time in a store's key."""

    @staticmethod
    def first(time: int) -> bytes:
        """Return what the store's keys from ``time`` on begin with, or are greater than."""


@dataclass(frozen=True, slots=True)
class WindowKeys:
    """The written form of a kind's windows.

    ``bounds`` says which bounds of a window are written, each in 8 bytes, and in which order. The start is one of them.
    The first one orders a store: windows are deleted by it. ``suffix`` ends the keys of a changelog.
    """

    bounds: tuple[Literal["start", "end"], ...]
    suffix: bytes = b""

    @property
    def _width(self) -> int:
        return _WORD * len(self.bounds)

    def in_store(self, keys: list[bytes], starts: Any, ends: Any) -> list[bytes]:
        """Return the store's keys of these keys and windows."""
        of = {"start": starts, "end": ends}
        written = items(_side_by_side([of[bound] for bound in self.bounds]))
        return [window + key for window, key in zip(written, keys, strict=True)]

    @property
    def columns(self) -> set[str]:
        """The columns of rows that are written into the keys of an output topic."""
        return {f"window_{bound}" for bound in self.bounds}

    def in_output(self, keys: Any, rows: Any) -> Any:
        """Return the keys of rows with their windows, for an output topic."""
        times = [rows[f"window_{bound}"].cast(pa.int64()).to_numpy(zero_copy_only=False) for bound in self.bounds]
        written = pa.py_buffer(_side_by_side(times).tobytes())
        raw = pa.Array.from_buffers(pa.binary(self._width), len(keys), [None, written]).cast(pa.binary())
        return pc.binary_join_element_wise(keys, raw, pa.scalar(b"", pa.binary()))

    def in_changelog(self, stored: list[bytes]) -> list[bytes]:
        """Return the changelog's keys of a store's keys."""
        width, suffix = self._width, self.suffix
        return [key[width:] + key[:width] + suffix for key in stored]

    def from_changelog(self, keys: list[bytes]) -> list[bytes]:
        """Return the store's keys of a changelog's keys."""
        begin, end = -self._width - len(self.suffix), -len(self.suffix) or None
        return [key[begin:end] + key[:begin] for key in keys]

    def of_key(self, keys: Any, key: bytes) -> Any:
        """Return which of a changelog's keys are windows of this key."""
        long = pc.equal(pc.binary_length(keys), len(key) + self._width + len(self.suffix))
        return pc.and_(long, pc.starts_with(keys, pattern=key))

    def key(self, stored: bytes) -> bytes:
        """Return the record's key in a store's key."""
        return stored[self._width :]

    def start(self, stored: bytes) -> int:
        """Return where the window of a store's key begins."""
        at = self.bounds.index("start") * _WORD
        return int.from_bytes(stored[at : at + _WORD], "big")

    @staticmethod
    def first(time: int) -> bytes:
        """Return what the store's keys of windows from ``time`` on begin with, or are greater than."""
        return time.to_bytes(_WORD, "big")


def _side_by_side(times: list[Any]) -> Any:
    """Return one item a window: its times, one after the other."""
    if len(times) == 1:
        return times[0].astype(">i8")
    return np.stack(times, axis=1).astype(">i8").view(f"V{_WORD * len(times)}").ravel()


#: A start tells windows of one size apart. Kafka Streams ends the changelog's key with a number, which is 0 there, too.
BY_START = WindowKeys(("start",), b"\0\0\0\0")
