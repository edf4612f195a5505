"""The rounds of a flow, one after the other: what is new, and who copies it.

While little is new, the driver holds a Fetch at the source and copies what comes itself: no job of Spark, and no
question whether something is new. What is more goes to tasks on executors.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from semel.mirror.background.offset_syncs import OffsetSyncWriter
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.copy import wanted as batches_to_copy
from semel.mirror.driver_copy import StandingFetch, fetched
from semel.mirror.following import TopicFollower
from semel.mirror.group_view import GroupView
from semel.mirror.losses import advice
from semel.mirror.meter import FlowMeter
from semel.mirror.offsets.segment_topic import SegmentTopic
from semel.mirror.plan import Assignment, Ends, plan, reader_of, shared_out, stable_ends
from semel.mirror.round import Copier, Done, Round, commit
from semel.mirror.task import ExecutorCopy
from semel.transaction.producer import Producer
from semel.transaction.ticket import TicketTopic
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["Rounds"]

#: How long nothing is asked when nothing was new.
_IDLE_S = 0.2
#: How often a paused flow looks where the source ends.
_RESTING_S = 0.5
#: So often at most rounds follow each other that only move the position past aborted rows and markers.
_EMPTY_S = 1.0
#: So many offsets are looked at here for records.
_LOOK_AT = 50_000


class Rounds:
    """Runs the rounds of a flow that was taken over. Its session's thread alone uses it."""

    def __init__(
        self,
        spark: SparkSession,
        config: FlowConfig,
        id: str,
        clients: tuple[Client, Client],
        producer: Producer,
        followed: TopicFollower,
        segments: SegmentTopic,
        meter: FlowMeter,
        syncs: OffsetSyncWriter,
    ) -> None:
        self._spark, self._config, self._id, self._producer = spark, config, id, producer
        self._source, self._target = clients
        self._followed, self._segments, self._meter, self._syncs = followed, segments, meter, syncs
        self._segment_ticket: TicketTopic | None = None
        self._group = GroupView(id)
        self._fetch: StandingFetch | None = None
        #: When the last round ended, if it had no records.
        self._empty: float | None = None

    def prepare(self) -> None:
        """Find or make the topic of the target offsets."""
        if self._segment_ticket is None:
            self._segment_ticket = self._segments.ensure(self._config.replication_factor)

    def ends(self) -> Ends:
        """Return where the source partitions end that have a position."""
        positions = self._followed.positions
        partitions = [p for p in self._followed.partitions if p in positions.at]
        return stable_ends(self._source, partitions, read_committed=self._config.read_committed)

    def next(self, wanted: Ends | None, stop: threading.Event) -> bool:
        """Copy what is new, at most up to what is ``wanted``. If nothing is new, wait a moment, unless something is
        ``wanted``. Return False if there was nothing to copy.
        """
        try:
            moved = self._held() if wanted is None and self._holds() else self._planned(wanted)
        except BaseException:
            self.stop_waiting()
            raise
        if not moved and wanted is None:
            self.write_group()
            if self._fetch is None:
                stop.wait(_IDLE_S)
        return moved

    def rest(self, stop: threading.Event) -> None:
        """Copy nothing for a moment, and see what comes meanwhile."""
        self.stop_waiting()
        self._see({partition: row.offset for partition, row in self.ends().items()})
        self.write_group()
        stop.wait(_RESTING_S)

    def stop_waiting(self) -> None:
        """Take the Fetch back that waits at the source."""
        if self._fetch is not None:
            self._fetch.close()
            self._fetch = None

    # ---- by the driver

    def _holds(self) -> bool:
        """Return whether the Fetch that waits asks for what is to be copied now. Another one is taken back."""
        if self._fetch is None:
            return False
        followed = self._followed
        if followed.next_trial(followed.partitions) is None and self._fetch.follows(
            followed.positions, followed.active
        ):
            return True
        self.stop_waiting()
        return False

    def _hold(self) -> bool:
        """Hold a Fetch from now on. Return False if there is nothing to hold one for."""
        active = self._followed.active
        if active and self._config.driver_copies:
            self._fetch = StandingFetch(self._source, self._config, self._followed.positions, active)
        return self._fetch is not None

    def _held(self) -> bool:
        """Wait for new records, and copy them here if they are few."""
        fetch = self._fetch
        assert fetch is not None
        if not fetch.wait() and not fetch.has_moved:
            return False
        self._see(fetch.log_ends)
        if fetch.behind > self._config.driver_copies:
            self.stop_waiting()
            return self._planned(None)
        if not fetch.has_records and not (fetch.has_moved and self._empty_is_due):
            return False
        self._run(fetch.round(self._target))
        fetch.committed()
        self._see(fetch.log_ends)
        return True

    # ---- by a plan

    def _planned(self, wanted: Ends | None) -> bool:
        """Run a round up to where the source is stable now, and after it one for a partition that is tried again."""
        ends = self.ends()
        self._followed.see({partition: row.offset for partition, row in ends.items()})
        parts = self._plan({p: row for p, row in ends.items() if self._followed.copies(p)}, wanted)
        trial = self._followed.next_trial(ends)
        size = sum(part.range.size for part in parts)
        if wanted is None and trial is None and size <= self._config.driver_copies and self._hold():
            return self._held()
        moved = bool(parts) and not (wanted is None and self._waits_for_records(parts, size))
        if moved:
            self._run(self._copier(parts))
        self._see({partition: row.offset for partition, row in ends.items()})
        if trial is not None:
            tried = self._plan({trial: ends[trial]}, wanted)
            if tried:
                self._run(self._copier(tried))
            self._followed.clear(trial)
        return moved or trial is not None

    def _plan(self, ends: Ends, wanted: Ends | None) -> list[Assignment]:
        followed = self._followed
        return plan(self._source, self._config, followed.positions, followed.partitions, ends, wanted)

    def _copier(self, parts: Sequence[Assignment]) -> Copier:
        if sum(part.range.size for part in parts) <= self._config.driver_copies:
            return fetched(self._source, self._target, self._config, self._followed.partitions, parts)
        shares = shared_out(parts, self._spark.sparkContext.defaultParallelism)
        return ExecutorCopy(self._spark, self._config, shares)

    @property
    def _empty_is_due(self) -> bool:
        """True if a round without records may run: not a moment after another one."""
        return self._empty is None or time.monotonic() - self._empty > _EMPTY_S

    def _waits_for_records(self, parts: Sequence[Assignment], size: int) -> bool:
        """Return whether a round can wait: a moment ago one had no records, and this one has none either. Where to look
        could take long, tasks look, and the position moves.
        """
        if self._empty_is_due or size > _LOOK_AT:
            return False
        with reader_of(self._source, parts, advice(self._config.policy)) as reader:
            return not any(batches_to_copy(taken) for answer in reader.answers() for taken in answer)

    # ---- each round

    def _run(self, copier: Copier) -> Done:
        assert self._segment_ticket is not None
        done = Round(
            self._config,
            self._id,
            self._producer,
            self._followed.topics,
            self._followed.partitions,
            self._segments,
            self._segment_ticket,
            self._followed.positions,
            self._group,
        ).run(copier)
        self._meter.add(done.copied, done.times)
        self._syncs.add(done.runs)
        self._empty = None if any(count for count, _ in done.copied.values()) else time.monotonic()
        return done

    def _see(self, ends: Mapping[TopicPartition, int]) -> None:
        """Take note where source partitions end, and what is not copied of them."""
        self._followed.see(ends)
        at = self._followed.positions.at
        self._meter.set_lag({p: max(end - at[p].offset, 0) for p, end in ends.items() if p in at})

    def write_group(self, *, now: bool = False) -> None:
        """Commit KIP-656's group where it is behind the positions, and that is due, or ``now``."""
        if self._producer.progress is None:
            return
        positions, partitions = self._followed.positions, self._followed.partitions
        if self._group.due(positions, partitions, now=now):
            with self._producer.transaction() as txn:
                commit(txn, positions, partitions, self._group, now=now)
