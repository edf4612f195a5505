"""How long updates of a table wait, and when a window's results are handed on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from semel.streams.windows.duration import milliseconds

__all__ = ["EmitStrategy", "Suppressed"]


class EmitStrategy(Enum):
    """When the results of a window are handed on."""

    ON_WINDOW_UPDATE = "with each update"
    ON_WINDOW_CLOSE = "once, when the window has closed"


@dataclass(frozen=True, slots=True)
class Suppressed:
    """How long updates wait. ``limit_ms`` is None until their window closes."""

    limit_ms: int | None = None
    max_records: int | None = None

    @classmethod
    def until_window_closes(cls) -> Suppressed:
        """Hand on one result for each window, when it takes no more records."""
        return cls()

    @classmethod
    def until_time_limit(cls, limit: str | int, *, max_records: int | None = None) -> Suppressed:
        """Hand on the newest update of a key, ``limit`` after the first one by the records' time.

        With more than ``max_records`` keys the oldest go before.
        """
        return cls(milliseconds(limit, "time limit"), max_records)
