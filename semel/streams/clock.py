"""The machine's clock."""

from __future__ import annotations

import time

__all__ = ["now_ms"]


def now_ms() -> int:
    """Return the time of the machine's clock in milliseconds."""
    return int(time.time() * 1000)
