"""What a kind of windows has to say: which windows rows fall into, when they close, how they are kept and written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from semel.streams.windows.keys import BY_START, WindowKeys

__all__ = ["Windows"]

#: What Kafka Streams keeps of a window store beyond its windows, so that a late look still finds them.
_KEPT_MS = 86_400_000


class Windows(ABC):
    """A kind of windows. A window takes rows until stream time has passed its end and ``grace_ms``.

    Stream time is the highest time that its task has seen.
    """

    #: The written form of its windows.
    keys: ClassVar[WindowKeys] = BY_START
    grace_ms: int

    @property
    @abstractmethod
    def longest_ms(self) -> int:
        """The length of its longest window."""

    @property
    @abstractmethod
    def in_words(self) -> str:
        """Name the windows. The words are kept with each store: other words refuse the store."""

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
