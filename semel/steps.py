"""The named steps of each protocol, in order, and the observer that tests hook (DESIGN section 5).

Code calls :func:`reached` at each step. In production that is two comparisons with None.
``SEMEL_STEPS=module:function`` names an observer ``function(step, detail)``; it is read once, at import, so that
executors' Python workers get it through ``spark.executorEnv``. A crash test kills the process inside the observer: a
new step is covered without a new test.

To learn how long the steps of a piece of work take, run it within :func:`timed`.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

__all__ = [
    "BEFORE_4_2",
    "HEALING",
    "AdoptionStep",
    "CaptureStep",
    "ConnectStep",
    "HerderStep",
    "MirrorStep",
    "OutboxStep",
    "OwnerStep",
    "ParticipantStep",
    "SessionStep",
    "SinkStep",
    "SinkTaskStep",
    "Step",
    "StreamsStep",
    "TwoPhaseStep",
    "WriterStep",
    "keep_timing_in_thread",
    "reached",
    "timed",
]


class Step(Enum):
    """A named point in a protocol. The order of the members is the order of the protocol."""


class OwnerStep(Step):
    """Steps of the owner of a transactional id; the names of PROTOCOL.md, sections 2 and 3."""

    INITIALISED = "initialised"
    CLAIMED = "claimed"
    PROGRESS_READ = "progress_read"
    MARKERS_CHECKED = "markers_checked"
    DECISION_WRITTEN = "decision_written"
    HEALED = "healed"
    BEGUN = "begun"
    PARTITIONS_ADDED = "partitions_added"
    WRITTEN = "written"
    PROGRESS_WRITTEN = "progress_written"
    OFFSETS_ADDED = "offsets_added"
    COMMIT_SENT = "commit_sent"
    COMMIT_ANSWERED = "commit_answered"
    MARKERS_SEEN = "markers_seen"
    EPOCH_SKIPPED = "epoch_skipped"
    ABORT_SENT = "abort_sent"
    ABORT_ANSWERED = "abort_answered"


#: The steps of an owner that are passed only where brokers have lost a marker (PROTOCOL 5): a kill loop that waits for
#: them waits for ever.
HEALING = (OwnerStep.DECISION_WRITTEN, OwnerStep.HEALED)


class ParticipantStep(Step):
    """Steps of a participant: one task that writes the partitions of its ticket."""

    STARTED = "started"
    SENT = "sent"
    ACKNOWLEDGED = "acknowledged"
    RECEIPT = "receipt"


class SinkStep(Step):
    """Steps of the Spark sink around one transaction."""

    CALLED = "called"
    DECIDED = "decided"
    JOB_DONE = "job_done"
    PROVEN = "proven"
    RETURNING = "returning"


class WriterStep(Step):
    """Steps of ``format("semel")`` as a sink: of the plan, of a task, of the process that commits or aborts."""

    TAKEN_OVER = "taken_over"
    PLANNED = "planned"
    TASK_STARTED = "task_started"
    PART_BEGUN = "part_begun"
    PART_PREPARED = "part_prepared"
    COMMITTING = "committing"
    DECIDED = "decided"
    PARTS_COMMITTED = "parts_committed"
    ABORTING = "aborting"
    PARTS_ABORTED = "parts_aborted"


class TwoPhaseStep(Step):
    """Steps of a prepared transaction: of the process that prepares it, and of the one that ends it."""

    INITIALISED = "initialised"
    EPOCH_SKIPPED = "epoch_skipped"
    SENT = "sent"
    PREPARED = "prepared"
    COMMIT_SENT = "commit_sent"
    COMMIT_ANSWERED = "commit_answered"
    ABORT_SENT = "abort_sent"
    ABORT_ANSWERED = "abort_answered"
    LISTED = "listed"
    DECIDED = "decided"


#: The steps that are passed only on brokers before 4.2, which take late markers.
BEFORE_4_2 = (OwnerStep.EPOCH_SKIPPED, TwoPhaseStep.EPOCH_SKIPPED)


class OutboxStep(Step):
    """Steps of an outbox around those of its prepared transaction: of its recovery, then of each unit."""

    OWNER_RAISED = "owner_raised"
    TEXTS_READ = "texts_read"
    RECOVERED = "recovered"
    BEGUN = "begun"
    OWNER_LOCKED = "owner_locked"
    TEXT_WRITTEN = "text_written"
    DECISION_SENT = "decision_sent"
    DECIDED = "decided"
    FORGOTTEN = "forgotten"


class MirrorStep(Step):
    """Steps of a flow of the mirror. ``FETCHED`` and ``WRITTEN`` are passed in its tasks, the others in the driver; the
    last five beside its rounds, and only where there are groups, heartbeats, access rights and offset syncs.
    """

    TOPICS_FOLLOWED = "topics_followed"
    BEGINNINGS_COMMITTED = "beginnings_committed"
    PLANNED = "planned"
    FETCHED = "fetched"
    WRITTEN = "written"
    COPIED = "copied"
    PROVEN = "proven"
    SEGMENTS_WRITTEN = "segments_written"
    COMMITTED = "committed"
    CHECKPOINTS_WRITTEN = "checkpoints_written"
    GROUP_SYNCED = "group_synced"
    HEARTBEAT_WRITTEN = "heartbeat_written"
    ACLS_SYNCED = "acls_synced"
    OFFSET_SYNCS_WRITTEN = "offset_syncs_written"


class AdoptionStep(Step):
    """Steps of the adoption of a flow of the mirror."""

    PREDECESSOR_FENCED = "predecessor_fenced"
    PLACED = "placed"
    SEGMENTS_WRITTEN = "segments_written"
    COMMITTED = "committed"


class ConnectStep(Step):
    """Steps of a source task of Connect: of its start (KIP-618's order), then of each transaction."""

    TASK_ASSIGNED = "task_assigned"
    PRODUCER_READY = "producer_ready"
    OFFSETS_CLAIMED = "offsets_claimed"
    OFFSETS_READ = "offsets_read"
    TASK_STARTED = "task_started"
    POLLED = "polled"
    RECORDS_WRITTEN = "records_written"
    OFFSETS_SENT = "offsets_sent"
    COMMITTED = "committed"


class CaptureStep(Step):
    """Steps of a task that captures the changes of a database: of its start, then of each commit."""

    PUBLICATION_READY = "publication_ready"
    SLOT_READY = "slot_ready"
    SNAPSHOT_BEGAN = "snapshot_began"
    ROWS_READ = "rows_read"
    LOG_OPENED = "log_opened"
    LOG_CONFIRMED = "log_confirmed"


class SinkTaskStep(Step):
    """Steps of a sink's task of Connect: of its start, of each batch, and of each commit of offsets.

    A target with transactions passes ``ROWS_SENT`` and ``TARGET_COMMITTED`` for each of its own.
    """

    SINK_ASSIGNED = "sink_assigned"
    SINK_STARTED = "sink_started"
    PARTITIONS_OPENED = "partitions_opened"
    RECORDS_READ = "records_read"
    ROWS_SENT = "rows_sent"
    TARGET_COMMITTED = "target_committed"
    RECORDS_PUT = "records_put"
    TARGET_FLUSHED = "target_flushed"
    GROUP_COMMITTED = "group_committed"
    PARTITIONS_CLOSED = "partitions_closed"


class HerderStep(Step):
    """Steps of a worker of Connect that gives a connector a new generation of tasks."""

    CONFIG_WRITTEN = "config_written"
    TASKS_WRITTEN = "tasks_written"
    PREDECESSORS_FENCED = "predecessors_fenced"
    COUNT_WRITTEN = "count_written"


class SessionStep(Step):
    """Steps of a session, a member of a consumer group: around the steps of its producer."""

    ASSIGNED = "assigned"
    POSITIONS_READ = "positions_read"
    HANDED_OUT = "handed_out"
    SENT = "sent"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ABANDONED = "abandoned"


class StreamsStep(Step):
    """Steps of a worker of streams: around the steps of its session. ``STORED`` has what the commit before it said.
    ``RESTORING`` and ``COPIED`` are of another thread: a store has taken records, a standby's store is at the end.
    """

    OPENED = "opened"
    RESTORING = "restoring"
    COPIED = "copied"
    RESTORED = "restored"
    PROCESSED = "processed"
    CHANGELOG_SENT = "changelog_sent"
    COMMITTED = "committed"
    STORED = "stored"


Observer = Callable[[Step, str], None]


def _load() -> Observer | None:
    name = os.environ.get("SEMEL_STEPS")
    if not name:
        return None
    module, _, function = name.partition(":")
    loaded = importlib.import_module(module)
    if not hasattr(loaded, function) and getattr(loaded.__spec__, "_initializing", False):
        # the program has imported the observer's module first, which imports this one: the function is there when the
        # first step comes
        return lambda step, detail: getattr(loaded, function)(step, detail)
    observer: Observer = getattr(loaded, function)
    return observer


_observer: Observer | None = None


class _Stopwatch:
    """The time since the step before, of one thread's work."""

    def __init__(self, on_step: Callable[[Step, float], None]) -> None:
        self.on_step = on_step
        self._last = time.monotonic()

    def passed(self, step: Step) -> None:
        now = time.monotonic()
        self.on_step(step, now - self._last)
        self._last = now


_stopwatch: ContextVar[_Stopwatch | None] = ContextVar("semel_stopwatch", default=None)


@contextmanager
def timed(on_step: Callable[[Step, float], None]) -> Iterator[None]:
    """Call ``on_step`` with each step that this thread's work passes, and the seconds since the one before, or since
    the beginning.

    It also hears of what the work leaves to other threads by :func:`keep_timing_in_thread`, from those threads.
    """
    token = _stopwatch.set(_Stopwatch(on_step))
    try:
        yield
    finally:
        _stopwatch.reset(token)


def keep_timing_in_thread(work: Callable[[], None]) -> Callable[[], None]:
    """``work`` for another thread: its steps belong to what this thread is doing now, and their time runs from now,
    beside this thread's.
    """
    here = _stopwatch.get()
    if here is None:
        return work
    watch = _Stopwatch(here.on_step)

    def run() -> None:
        _stopwatch.set(watch)  # a new thread begins with a context of its own
        work()

    return run


def reached(step: Step, detail: str = "") -> None:
    """Say that ``step`` has just been passed: to who times it, and to the observer.

    ``detail`` is for people (a transactional id, a partition).
    """
    watch = _stopwatch.get()
    if watch is not None:
        watch.passed(step)
    if _observer is not None:
        _observer(step, detail)


# last, so that an observer's module may import anything of semel, this module included
_observer = _load()
