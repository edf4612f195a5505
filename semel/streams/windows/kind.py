"""What a kind of windows has to say: which windows rows fall into, when they close, how they are kept and written.

There are two: windows whose bounds lie in time (:class:`Windows`), and those whose bounds depend on a key's records
(:class:`WindowsOfKey`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Protocol

from semel.streams.windows.keys import BY_START, StoreKeys, WindowKeys
from semel.streams.windows.record_keys import RecordKeys

__all__ = ["KeyState", "Steps", "WindowKind", "Windows", "WindowsOfKey"]

#: What Kafka Streams keeps of a window store beyond its windows, so that a late look still finds them.
_KEPT_MS = 86_400_000


class WindowKind(ABC):
    """A kind of windows."""

    #: The written form of its windows.
    keys: ClassVar[WindowKeys] = BY_START
    grace_ms: int

    @property
    @abstractmethod
    def in_words(self) -> str:
        """Name the windows. The words are kept with each store: other words refuse the store."""

    @property
    @abstractmethod
    def retention_ms(self) -> int:
        """The time that a window stays in the store, from the bound that orders the store."""

    @property
    def close_ms(self) -> int:
        """The time from a window's end until it takes no more rows."""
        return self.grace_ms

    @property
    def store_keys(self) -> StoreKeys:
        """The written form in stores."""
        return self.keys


class Windows(WindowKind):
    """Windows whose bounds lie in time. One takes rows until stream time has passed its end and ``grace_ms``.

    Stream time is the highest time that its task has seen.
    """

    @property
    @abstractmethod
    def longest_ms(self) -> int:
        """The length of its longest window."""

    @abstractmethod
    def assign(self, times: Any) -> tuple[Any, Any, Any]:
        """Return the number of the row, the start and the end, for each row and each window that it falls into."""

    @property
    def retention_ms(self) -> int:
        """The time that a window stays in the store, from the bound that orders the store."""
        return max(self.longest_ms + self.grace_ms, _KEPT_MS)

    def takes(self, ends: Any, stream_time: Any) -> Any:
        """Return which windows still take rows, by their ends and the stream time of each."""
        return ends + self.grace_ms > stream_time


class KeyState(Protocol):
    """A key's windows while a batch is worked on: those that are not older than ``kept_ms``."""

    def windows(self) -> Iterable[tuple[int, int, Any, int]]:
        """Return start, end, aggregate and time of each, in the order of the store."""

    def put(self, start: int, end: int, state: Any, time: int, row_time: int | None = None, old: Any = None) -> None:
        """Set the aggregate of a window; None deletes it. A row is handed on, with ``row_time`` or ``time``, and with
        ``old`` as the value that was there before.
        """


class Steps(Protocol):
    """What an aggregation does with one record."""

    def initial(self) -> Any:
        """Return the first aggregate."""

    def add(self, state: Any) -> Any:
        """Return the aggregate with the record."""

    def merge(self, one: Any, other: Any) -> Any:
        """Return the aggregate of two windows that have become one."""


class WindowsOfKey(WindowKind):
    """Windows whose bounds depend on the records of a key. Records are taken one by one."""

    keys_of_store: ClassVar[type[RecordKeys]] = RecordKeys
    #: Whether records without a value are dropped.
    needs_value: ClassVar[bool] = False
    #: Whether updates have the headers of the records that they were made of.
    keeps_headers: ClassVar[bool] = True

    @property
    @abstractmethod
    def kept_ms(self) -> int:
        """The time that a window is found, from the bound that orders the store to the newest such bound."""

    @property
    @abstractmethod
    def reach_ms(self) -> int:
        """How far before a record the bound of its windows lies at most."""

    @abstractmethod
    def take(self, key: KeyState, time: int, now: int, steps: Steps) -> bool:
        """Put a record into its windows, at stream time ``now``. Return whether it was in time."""

    @property
    def store_keys(self) -> RecordKeys:
        """The written form in stores: the windows of a key are one range."""
        return self.keys_of_store(self.retention_ms)
