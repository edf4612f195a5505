"""The records that tasks have read, and the age of their open transactions, as they report them each second.

In memory alone.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = ["TaskCounts", "Throughput"]

#: The window of a rate in seconds. A task without a report in this time has no rate.
_WINDOW_S = 5.0


class _Report(NamedTuple):
    at: float
    records: int
    open_ms: float | None = None
    polled: int = 0
    commits: int = 0


class TaskCounts(NamedTuple):
    """The counts of a task since its process started: records polled and written, and transactions ended.

    ``open_seconds`` is the age of its open transaction, or 0.
    """

    polled: int
    records: int
    commits: int
    open_seconds: float


class Throughput:
    """The records of each task since its process started, and a second, and the age of its open transaction. Any thread
    may use it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._reports: dict[str, dict[int, deque[_Report]]] = {}

    def heard(self, process: str, message: Mapping[str, Any]) -> None:
        """Take what a task tells: ``records``, ``polled`` and ``commits``, counted from the start of its process, and
        ``open_ms``, the age of its transaction, if one is open.
        """
        name, _, task = process.rpartition("-")
        counts = (int(message.get(name, 0)) for name in ("polled", "commits"))
        now = _Report(self._clock(), int(message.get("records", 0)), message.get("open_ms"), *counts)
        with self._lock:
            reports = self._reports.setdefault(name, {}).setdefault(int(task), deque())
            if reports and reports[-1].records > now.records:  # another process, which counts from 0
                reports.clear()
            reports.append(now)
            while len(reports) > 2 and reports[1].at <= now.at - _WINDOW_S:
                reports.popleft()

    def counts(self, names: Mapping[str, Any]) -> dict[str, dict[int, TaskCounts]]:
        """Return the newest report of each task of these connectors."""
        now = self._clock()
        with self._lock:
            return {
                name: {task: _counts(reports[-1], now) for task, reports in tasks.items()}
                for name, tasks in self._reports.items()
                if name in names
            }

    def shown(self, names: Mapping[str, Any]) -> dict[str, dict[int, dict[str, float]]]:
        """Return ``records``, ``records_per_second`` and ``open_seconds`` (0 without an open transaction) of each task.

        Connectors that are not among ``names`` are forgotten.
        """
        now = self._clock()
        with self._lock:
            for gone in self._reports.keys() - names.keys():
                del self._reports[gone]
            return {
                name: {task: _measured(reports, now) for task, reports in tasks.items()}
                for name, tasks in self._reports.items()
            }


def _counts(last: _Report, now: float) -> TaskCounts:
    return TaskCounts(last.polled, last.records, last.commits, _open_seconds(last, now))


def _open_seconds(last: _Report, now: float) -> float:
    """Return the age of a transaction: a task that waits in its connector tells nothing, and its transaction grows
    old.
    """
    return 0.0 if last.open_ms is None else last.open_ms / 1000 + now - last.at


def _measured(reports: deque[_Report], now: float) -> dict[str, float]:
    first, last = reports[0], reports[-1]
    passed = last.at - first.at
    quiet = not passed or now - last.at > _WINDOW_S
    return {
        "records": last.records,
        "records_per_second": 0.0 if quiet else (last.records - first.records) / passed,
        "open_seconds": _open_seconds(last, now),
    }
