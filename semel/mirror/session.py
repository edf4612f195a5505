"""A flow between taking over and letting go: which topics it has, where partitions begin, and its rounds."""

from __future__ import annotations

import logging
import threading
import time

from pyspark.sql import SparkSession

from semel.config import ClientConfig
from semel.errors import AbortAndRetry, ConfigError, DataLoss, Fenced, Retriable, SemelError
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.losses import (
    check_no_rows_without_position,
    check_not_lost,
    check_targets_exist,
    check_targets_unchanged,
    positions_lost,
)
from semel.mirror.metrics import FlowMeter
from semel.mirror.offsets.groups import GroupFollower
from semel.mirror.offsets.segment_topic import SegmentTopic
from semel.mirror.offsets.translation import segments_end
from semel.mirror.positions import SCOPE, OffsetAndEpoch, Positions
from semel.mirror.resolution import skip_deleted
from semel.mirror.rights import check_rights
from semel.mirror.round import Ends, Round, stable_ends
from semel.mirror.topics import MirroredTopic, find, follow, sync_configs, wants
from semel.mirror.tries import Tries
from semel.read.ranges import id_text
from semel.steps import MirrorStep, reached
from semel.transaction.producer import Producer
from semel.transaction.progress.reader import read_everything
from semel.transaction.progress.topic import ProgressTopic
from semel.transaction.ticket import TicketTopic
from semel.wire.api.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["Session"]

log = logging.getLogger("semel.mirror")

#: How long nothing is asked when nothing was new.
_IDLE_S = 0.2
#: So often at most rounds follow each other that only move the position past aborted rows and markers.
_EMPTY_S = 1.0
#: So often all offsets of KIP-656's group are committed again: the broker forgets offsets that are not renewed.
_GROUP_S = 86_400
_UNKNOWN, _ROWS_GONE, _OFFSETS_GONE = "OUTCOME_UNKNOWN", "ROWS_GONE", "OFFSETS_GONE"
_PROGRESS_LOST = "PROGRESS_LOST"


class Session:
    """A flow between taking over and letting go."""

    def __init__(
        self, spark: SparkSession, config: FlowConfig, id: str, stop: threading.Event, meter: FlowMeter
    ) -> None:
        self._spark, self._config, self._stop, self._id = spark, config, stop, id
        self._source = Client(ClientConfig.parse(config.source))
        self._target = Client(ClientConfig.parse(config.target))
        self._producer = Producer(self._target, id, scope=SCOPE)
        self._segments = SegmentTopic(self._target, id)
        self._segment_ticket: TicketTopic | None = None
        self._groups = GroupFollower(config, id)
        self._meter = meter
        self._topics: dict[str, MirroredTopic] = {}
        self._followed: float | None = None
        #: Something failed since: topics may be gone, or created again, and metadata would show that minutes later.
        self._doubtful = False
        self._synced: float | None = None
        self._group_written: float | None = None
        #: When the last round ended, if it had no records.
        self._empty: float | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            self._groups.close()
            self._producer.__exit__(kind, error, trace)
        finally:
            self._source.close()
            self._target.close()

    @property
    def _positions(self) -> Positions:
        """The committed positions."""
        progress = self._producer.progress
        if progress is None:
            return Positions.begin(self._source.cluster, self._config.policy)
        return Positions.of(progress, self._id)

    def work(self, tries: Tries, *, once: bool) -> None:
        """Run rounds until the flow is stopped or, with ``once``, done."""
        self._take_over()
        try:
            self._work(tries, once=once)
        except (ConfigError, DataLoss):
            self._check_not_fenced()
            raise

    def _check_not_fenced(self) -> None:
        """To one that was frozen, what its successor has done looks like a loss, and what to do then would do harm."""
        try:
            self._producer.check_owner()
        except Fenced:
            raise
        except SemelError as second:
            log.debug("%s: whether another has taken over could not be asked: %s", self._config.title, second)

    def _work(self, tries: Tries, *, once: bool) -> None:
        self._groups.start()
        wanted: Ends | None = None
        while not self._stop.is_set():
            try:
                if self._refresh_is_due():
                    self._follow()
                if _is_due(self._synced, self._config.configs_s):
                    self._synced = time.monotonic()
                    sync_configs(self._source, self._target, self._config, self._topics.values())
                if once and wanted is None:
                    wanted = self._ends()
                moved = self._copy(self._ends(), wanted)
            except AbortAndRetry as error:
                self._doubtful = True
                tries.failed(error)
                continue
            except Retriable as error:
                if error.tag == _UNKNOWN:
                    raise
                self._doubtful = True
                tries.failed(error)
                continue
            except DataLoss as error:
                if error.tag == _OFFSETS_GONE and self._config.skips_deleted and self._skip_deleted():
                    continue
                if error.tag != _ROWS_GONE:
                    raise
                # rows older than the target keeps them are deleted at each of its retention checks, in the round too;
                # or its topics are not there any more, or others: that is looked at first
                self._doubtful = True
                tries.failed(error)
                continue
            tries.succeeded()
            self._tell_groups()
            if not moved and wanted is not None:
                self._groups.follow(
                    checkpoints=self._config.checkpoints_s > 0, sync=self._config.sync_groups_s > 0, own=True
                )
                return
            if not moved:
                self._stop.wait(_IDLE_S)

    # ---- beginning

    def _take_over(self) -> None:
        self._source.versions()
        self._target.versions()
        if self._source.cluster == self._target.cluster:
            raise ConfigError(
                f"{self._config.policy.source} and {self._config.policy.target} are one cluster"
                f" ({self._source.cluster}). Nothing was copied. Correct the bootstrap.servers of one of them.",
                tag="ONE_CLUSTER",
            )
        # before an owner is fenced
        check_rights(self._source, self._target, self._config, self._id)
        self._check_same_flow(self._last_known())
        try:
            self._producer.take_over(group=self._id)
        except DataLoss as error:
            if error.tag != _PROGRESS_LOST:
                raise
            raise positions_lost(self._source, self._target, self._config, self._id) from None
        self._check_same_flow(self._positions)

    def _last_known(self) -> Positions | None:
        """Return the newest committed positions, read without ownership."""
        deadline = self._target.deadline()
        topic = ProgressTopic(self._target, self._id, SCOPE)
        if not topic.exists(deadline):
            return None
        newest = read_everything(topic, deadline).newest
        return None if newest is None else Positions.of(newest.progress, self._id)

    def _check_same_flow(self, positions: Positions | None) -> None:
        if positions is not None:
            positions.check_same_flow(self._source.cluster, self._config.policy)

    def _refresh_is_due(self) -> bool:
        return self._followed is None or self._doubtful or _is_due(self._followed, self._config.refresh_s)

    def _follow(self) -> None:
        """Find topics and partitions, have them on the target, and commit where those begin that were not there before.

        If a mirrored topic is gone, or was created again, it is not known whether all of it was copied.
        """
        positions, before, policy = self._positions, self._topics, self._config.policy
        found = find(self._source, self._config)
        same = {name for name, topic in found.items() if positions.ids.get(name) == id_text(topic.id)}
        doubtful = {name for name in positions.ids.keys() - same if wants(self._config, name)}
        if doubtful:
            check_not_lost(
                self._source, {p: at for p, at in positions.at.items() if p[0] in doubtful}, positions, policy
            )
            raise Retriable(f"{min(doubtful)} seemed to be another topic, or gone, for a moment. Nothing was copied.")
        check_targets_exist(self._target, policy, {name: positions.targets[name][0] for name in same})
        self._topics = follow(self._source, self._target, self._config, found, before)
        check_targets_unchanged(policy, self._topics, positions)
        reached(MirrorStep.TOPICS_FOLLOWED, self._id)
        self._begin(positions)
        if self._followed is None or self._topics != before:
            log.info("%s: %d topics, of %d partitions", self._config.title, len(self._topics), len(self._partitions()))
        self._followed, self._doubtful = time.monotonic(), False

    def _begin(self, positions: Positions) -> None:
        """Commit where partitions begin that have no position, before the first of their batches is written."""
        found = self._partitions().keys() - positions.at.keys()
        if not found:
            if self._producer.progress is None:  # topics that come from now on are found later
                with self._producer.transaction() as txn:
                    txn.commit(positions.begun({}, {}, {}).progress())
            return
        written = {self._partitions()[partition]: partition for partition in found}
        check_no_rows_without_position(self._target, self._config.policy.target, self._topics, written)
        begins = self._beginnings(found, anew=self._producer.progress is None)
        topics = {topic: self._topics[topic] for topic, _ in found}
        ids = {name: topic.id for name, topic in topics.items()}
        targets = {name: (topic.target, id_text(topic.ticket.id)) for name, topic in topics.items()}
        with self._producer.transaction() as txn:
            txn.send_offsets({self._partitions()[partition]: at.offset for partition, at in begins.items()}, self._id)
            txn.commit(positions.begun(begins, ids, targets).progress())
        reached(MirrorStep.BEGINNINGS_COMMITTED, self._id)

    def _partitions(self) -> dict[TopicPartition, TopicPartition]:
        """Each source partition, and the one that it is copied to."""
        return {
            (name, index): (topic.target, index)
            for name, topic in self._topics.items()
            for index in range(topic.partitions)
        }

    def _beginnings(self, found: set[TopicPartition], *, anew: bool) -> dict[TopicPartition, OffsetAndEpoch]:
        """Return where partitions begin. Those that are found later begin at their earliest offset: all of them are the
        mirror's.
        """
        at = LATEST if anew and self._config.start == "latest" else EARLIEST
        listed = list_offsets(self._source, dict.fromkeys(found, at), read_committed=True)
        targets = self._partitions()
        there = list_offsets(
            self._target, {targets[partition]: LATEST for partition in found}, read_committed=False
        )  # what was aborted there has taken offsets too
        return {
            partition: OffsetAndEpoch(row.offset, target=there[targets[partition]].offset)
            for partition, row in listed.items()
        }

    def _skip_deleted(self) -> bool:
        """Commit positions after rows that retention has deleted, since the file asks for it. False if that is not all
        that was lost.
        """
        moved, lost = skip_deleted(self._source, self._positions, self._topics)
        for loss in lost:
            count = loss.end - loss.start
            self._meter.skipped += count
            log.warning("%s: %d offsets were not copied (on.data.loss=skip): %s", self._config.title, count, loss)
        if lost:
            with self._producer.transaction() as txn:
                txn.commit(moved.progress())
        return bool(lost)

    # ---- a round

    def _ends(self) -> Ends:
        return stable_ends(self._source, self._partitions(), self._positions, self._config.policy)

    def _copy(self, ends: Ends, wanted: Ends | None) -> bool:
        """Run a round. False if there was nothing to copy."""
        waits = wanted is None and self._empty is not None and time.monotonic() - self._empty < _EMPTY_S
        done = self._round(wait_for_records=waits).run(ends, wanted)
        at = self._positions.at
        self._meter.set_lag({p: max(row.offset - at[p].offset, 0) for p, row in ends.items() if p in at})
        if done is not None:
            self._meter.add(done.copied, done.times)
            self._empty = None if any(count for count, _ in done.copied.values()) else time.monotonic()
            if _is_due(self._group_written, _GROUP_S):
                self._group_written = time.monotonic()
        elif wanted is None and _is_due(self._group_written, _GROUP_S):
            self._renew_group()
        return done is not None

    def _renew_group(self) -> None:
        """Commit KIP-656's group again where nothing was new, with the positions as they are."""
        positions = self._positions
        known = {target: positions.at[p].offset for p, target in self._partitions().items() if p in positions.at}
        if known:
            with self._producer.transaction() as txn:
                txn.send_offsets(known, self._id)
                txn.commit(positions.progress())
        self._group_written = time.monotonic()

    def _tell_groups(self) -> None:
        if self._producer.progress is not None:
            self._groups.tell(self._positions, segments_end(self._producer.progress, self._segments))

    def _round(self, *, wait_for_records: bool) -> Round:
        if self._segment_ticket is None:
            self._segment_ticket = self._segments.ensure(self._config.replication_factor)
        return Round(
            self._spark,
            self._config,
            self._id,
            self._source,
            self._producer,
            self._topics,
            self._partitions(),
            self._segments,
            self._segment_ticket,
            self._positions,
            _is_due(self._group_written, _GROUP_S),
            wait_for_records,
        )


def _is_due(last: float | None, interval_s: int) -> bool:
    """Return whether a periodic step is due. An interval of 0 means never."""
    return interval_s > 0 and (last is None or time.monotonic() - last > interval_s)
