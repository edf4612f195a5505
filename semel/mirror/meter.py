"""The numbers of the flows in this process: what they do, what they have copied, and how late.

Counts begin at zero with the process. What MirrorMaker 2 measures over a window is measured over 60 seconds.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.copy import Times
from semel.mirror.stops import Stop
from semel.wire.metadata import TopicPartition

__all__ = ["CheckpointKey", "Doing", "FlowMeter", "FollowedGroup", "Latency", "Rate", "meters"]

_WINDOW_S = 60.0
#: Group, topic and partition on the target.
CheckpointKey = tuple[str, str, int]
_K = TypeVar("_K")
_V = TypeVar("_V")


class Doing(Enum):
    """What a flow does. ``PAUSED`` and ``STOPPED`` are as an operator wants; one that has ``ENDED`` has failed, or its
    program ends.
    """

    STARTING = "starting"
    COPYING = "copying"
    PAUSED = "paused"
    STOPPED = "stopped"
    STANDING_BY = "standing by"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds: the least, the most, the mean, and those of the newest record."""

    least: float
    most: float
    mean: float
    newest: float


@dataclass(frozen=True, slots=True)
class Rate:
    """Records and bytes per second."""

    records: float
    size: float


@dataclass(frozen=True, slots=True)
class FollowedGroup:
    """A group that follows: its translated partitions, and how many of them have no exact offset."""

    partitions: int
    inexact: int


@dataclass(frozen=True, slots=True)
class _Late:
    """The milliseconds of some records: the least, the most, their sum, their number, and those of the newest one."""

    least: float
    most: float
    total: float
    count: int
    newest: float


class _Window(Generic[_K, _V]):
    """What was seen in the last seconds, by key."""

    def __init__(self) -> None:
        self._seen: dict[_K, deque[tuple[float, _V]]] = defaultdict(deque)

    def add(self, now: float, key: _K, value: _V) -> None:
        """Add what is seen now, by the monotonic clock."""
        self._seen[key].append((now, value))

    def values(self) -> dict[_K, list[_V]]:
        """Return what is in the window, and forget what is not."""
        since = time.monotonic() - _WINDOW_S
        for key, seen in list(self._seen.items()):
            while seen and seen[0][0] < since:
                seen.popleft()
            if not seen:
                del self._seen[key]
        return {key: [value for _, value in seen] for key, seen in self._seen.items()}


_meters: dict[str, FlowMeter] = {}


def meters() -> list[FlowMeter]:
    """Return the numbers of each flow that this process has started."""
    return list(_meters.values())


class FlowMeter:
    """The numbers of one flow, made when it starts. Any thread may ask."""

    def __init__(self, config: FlowConfig) -> None:
        self.source, self.target = config.policy.source, config.policy.target
        self.title = config.title
        self.doing = Doing.STARTING
        self.tries_again = False
        self.paused_topics: frozenset[str] = frozenset()
        #: By the monotonic clock.
        self.committed_at: float | None = None
        self.skipped = 0
        self._copied: dict[TopicPartition, tuple[int, int]] = defaultdict(lambda: (0, 0))
        self._groups: dict[str, FollowedGroup] = {}
        self._group_problems: dict[str, Stop] = {}
        self._lag: dict[TopicPartition, int] = {}
        self._stopped: dict[TopicPartition, Stop] = {}
        self._latencies: _Window[TopicPartition, _Late] = _Window()
        self._ages: _Window[TopicPartition, _Late] = _Window()
        self._checkpoints: _Window[CheckpointKey, _Late] = _Window()
        self._moved: _Window[TopicPartition, tuple[int, int]] = _Window()
        self._began = time.monotonic()
        self._lock = threading.Lock()
        _meters[config.title] = self

    @property
    def running(self) -> bool:
        """False once the flow has ended."""
        return self.doing is not Doing.ENDED

    def add(
        self, copied: Mapping[TopicPartition, tuple[int, int]], times: Mapping[TopicPartition, Times] | None = None
    ) -> None:
        """Add the records, bytes and times of a round that was just committed, by target partition."""
        now, clock = time.monotonic(), time.time_ns() // 1_000_000  # whole: a mean is between the others then
        with self._lock:
            for partition, one in (times or {}).items():
                late = _Late(
                    clock - one.newest, clock - one.oldest, clock * one.count - one.total, one.count, clock - one.newest
                )
                self._latencies.add(now, partition, late)
                if one.most_age >= 0:
                    age = _Late(one.least_age, one.most_age, one.total_age, one.count, one.least_age)
                    self._ages.add(now, partition, age)
            for partition, (records, size) in copied.items():
                before = self._copied[partition]
                self._copied[partition] = before[0] + records, before[1] + size
                self._moved.add(now, partition, (records, size))
            self.committed_at = now

    def add_checkpoints(self, keys: Iterable[CheckpointKey], milliseconds: float) -> None:
        """Add checkpoints that were just written, and how long that took from reading the group's offsets on."""
        now = time.monotonic()
        with self._lock:
            for key in keys:
                self._checkpoints.add(now, key, _Late(milliseconds, milliseconds, milliseconds, 1, milliseconds))

    def set_lag(self, lag: Mapping[TopicPartition, int]) -> None:
        """Set the records that are readable and not copied, by source partition."""
        with self._lock:
            self._lag = dict(lag)

    def set_stopped(self, stopped: Mapping[TopicPartition, Stop]) -> None:
        """Set what is stopped, by source partition or topic."""
        with self._lock:
            self._stopped = dict(stopped)

    def set_groups(self, groups: Mapping[str, FollowedGroup], problems: Mapping[str, Stop]) -> None:
        """Set the groups that follow, and the reasons of those that do not, or not wholly."""
        with self._lock:
            self._groups, self._group_problems = dict(groups), dict(problems)

    @property
    def groups(self) -> tuple[dict[str, FollowedGroup], dict[str, Stop]]:
        """The groups and their problems as they were set."""
        with self._lock:
            return dict(self._groups), dict(self._group_problems)

    @property
    def stopped(self) -> dict[TopicPartition, Stop]:
        """The stopped partitions and topics as they were set."""
        with self._lock:
            return dict(self._stopped)

    @property
    def copied(self) -> dict[TopicPartition, tuple[int, int]]:
        """All records and bytes, by target partition."""
        with self._lock:
            return dict(self._copied)

    @property
    def rates(self) -> dict[TopicPartition, Rate]:
        """What was copied per second, of each target partition that ever got records."""
        seconds = min(max(time.monotonic() - self._began, 1.0), _WINDOW_S)
        with self._lock:
            moved, known = self._moved.values(), list(self._copied)
        totals = {p: [sum(column) for column in zip(*moved[p], strict=True)] if p in moved else [0, 0] for p in known}
        return {partition: Rate(records / seconds, size / seconds) for partition, (records, size) in totals.items()}

    @property
    def latencies(self) -> dict[TopicPartition, Latency]:
        """The time from a record's timestamp to the commit of its copy, of target partitions with records lately."""
        return self._late(self._latencies)

    @property
    def ages(self) -> dict[TopicPartition, Latency]:
        """The age of records when they were read, of target partitions with records lately."""
        return self._late(self._ages)

    @property
    def checkpoint_latencies(self) -> dict[CheckpointKey, Latency]:
        """The time from reading a group's offset to its checkpoint, of those that were written lately."""
        return self._late(self._checkpoints)

    def _late(self, window: _Window[_K, _Late]) -> dict[_K, Latency]:
        with self._lock:
            seen = window.values()
        return {key: _latency(rows) for key, rows in seen.items()}

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """The lag as it was set."""
        with self._lock:
            return dict(self._lag)


def _latency(seen: list[_Late]) -> Latency:
    """Return the latency of some rounds. A clock that is behind that of the producers makes it 0, not less."""
    mean = sum(one.total for one in seen) / sum(one.count for one in seen)
    least, most = min(one.least for one in seen), max(one.most for one in seen)
    return Latency(max(least, 0), max(most, 0), max(mean, 0), max(seen[-1].newest, 0))
