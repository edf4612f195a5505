"""The report of a task to its worker, each second: what it has done since its process started.

Sources and sinks send the same fields, so the worker's console, REST and metrics read one form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["TaskReport"]


class TaskReport(NamedTuple):
    """Counts since the start of the process.

    ``polled`` records were read, ``records`` of them written, in ``polls`` polls of a source or batches of a sink.
    ``commits`` counts ended transactions, or a sink's commits of offsets. ``open_ms`` is an open transaction's age.
    """

    records: int
    polls: int
    polled: int
    commits: int
    open_ms: float | None
    topics: Sequence[str]

    def message(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return self._asdict()
