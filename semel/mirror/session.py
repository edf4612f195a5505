"""A flow between taking over and letting go: its rounds, and what becomes of their errors."""

from __future__ import annotations

import logging
import threading

from pyspark.sql import SparkSession

from semel.config import ClientConfig
from semel.errors import AbortAndRetry, ConfigError, DataLoss, Retriable, SemelError
from semel.mirror.background.acls import AclFollower
from semel.mirror.background.offset_syncs import OffsetSyncWriter
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.following import TopicFollower
from semel.mirror.losses import advice, losses_of, positions_lost
from semel.mirror.meter import Doing, FlowMeter
from semel.mirror.offsets.groups import GroupFollower, check_checkpoints_topic
from semel.mirror.offsets.segment_topic import SegmentTopic
from semel.mirror.offsets.translation import segments_end
from semel.mirror.operation.wanted import FlowState, paused
from semel.mirror.operation.watch import OperatorWatch
from semel.mirror.plan import Ends
from semel.mirror.positions import SCOPE, Positions, last_known
from semel.mirror.resolution import skip_deleted
from semel.mirror.rights import check_rights
from semel.mirror.rounds import Rounds
from semel.mirror.stops import explained, stops_a_partition
from semel.mirror.tries import Tries
from semel.read.data_loss import loss_error
from semel.transaction.producer import Producer
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["Session"]

log = logging.getLogger("semel.mirror")

_UNKNOWN, _ROWS_GONE, _OFFSETS_GONE = "OUTCOME_UNKNOWN", "ROWS_GONE", "OFFSETS_GONE"
_PROGRESS_LOST = "PROGRESS_LOST"
#: The target may accept other sizes by now than when they were read.
_TOO_LARGE = ("RECORD_TOO_LARGE", "MESSAGE_TOO_LARGE")
#: A topic of the flow may be gone: the topics are looked at again.
_MAY_BE_GONE = ("UNKNOWN_TOPIC", "UNKNOWN_PARTITION", "UNKNOWN_TOPIC_OR_PARTITION")


class Session:
    """A flow between taking over and letting go."""

    def __init__(
        self,
        spark: SparkSession,
        config: FlowConfig,
        id: str,
        stop: threading.Event,
        meter: FlowMeter,
        watch: OperatorWatch,
    ) -> None:
        self._spark, self._config, self._stop, self._id = spark, config, stop, id
        self._watch = watch
        self._source = Client(ClientConfig.parse(config.source))
        self._target = Client(ClientConfig.parse(config.target))
        self._producer = Producer(self._target, id, scope=SCOPE)
        self._segments = SegmentTopic(self._target, id)
        self._groups = GroupFollower(config, id, meter)
        self._acls = AclFollower(config, id)
        self._syncs = OffsetSyncWriter(config, id)
        self._meter = meter
        self._followed = TopicFollower(self._source, self._target, config, id, self._producer)
        clients = self._source, self._target
        self._rounds = Rounds(
            spark, config, id, clients, self._producer, self._followed, self._segments, meter, self._syncs
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            self._rounds.stop_waiting()
            self._groups.close()
            self._producer.__exit__(kind, error, trace)
        finally:
            self._syncs.close()
            self._acls.close()  # it may wait for a cluster: nothing open does that with it
            self._source.close()
            self._target.close()

    @property
    def known(self) -> Positions | None:
        """The newest positions that this session has read or committed, or None."""
        return None if self._producer.progress is None else self._positions

    @property
    def _positions(self) -> Positions:
        """The committed positions."""
        return self._followed.positions

    def work(self, tries: Tries, *, once: bool) -> None:
        """Run rounds until the flow is to end, or to give its id up, or, with ``once``, is done. What stops a topic
        leaves the others alone.

        With ``once`` the first error that has stopped a topic is raised at the end.
        """
        self._take_over()
        try:
            self._work(tries, once=once)
        except (ConfigError, DataLoss):
            self._followed.check_not_fenced()
            raise

    def _work(self, tries: Tries, *, once: bool) -> None:
        self._followed.resume()
        self._groups.start()
        if not once:
            self._acls.start()
            self._syncs.start()
        wanted: Ends | None = None
        while not self._stop.is_set() and not self._watch.lets_go:
            try:
                is_paused = self._is_paused(once=once)
                self._rounds.prepare()  # first: where that cannot be made, the file is wrong, and not one topic
                self._followed.keep_up()
                self._record()
                if once and wanted is None:
                    wanted = self._rounds.ends()
                moved = not is_paused and self._rounds.next(wanted, self._stop)
                if is_paused:
                    self._rounds.rest(self._stop)
            except SemelError as error:
                self._failed(error, tries)
                continue
            tries.succeeded()
            self._tell_groups()
            if not moved and wanted is not None:
                self._finish()
                return
        self._rounds.write_group(now=True)

    def _is_paused(self, *, once: bool) -> bool:
        """Do as an operator wants. Return True if nothing is to be copied now. Raise :class:`ConfigError` if all that
        is there was to be copied ``once``.
        """
        wanted = self._watch.wanted
        if self._followed.paused != wanted.paused_topics:
            log.info("%s: paused alone are now: %s", self._config.title, ", ".join(sorted(wanted.paused_topics)) or "-")
            self._followed.paused = self._meter.paused_topics = wanted.paused_topics
        is_paused = wanted.state is FlowState.PAUSED
        if is_paused and once:
            raise paused(self._config, wanted)
        self._meter.doing = Doing.PAUSED if is_paused else Doing.COPYING
        return is_paused

    def _record(self) -> None:
        self._meter.set_stopped(self._followed.stops.found)
        self._followed.record(self._groups.problems)

    def _finish(self) -> None:
        """Let groups, access rights and offset syncs follow up to the end, and raise what has stopped a topic."""
        self._rounds.write_group(now=True)
        self._acls.follow()
        self._syncs.follow()
        self._groups.follow(checkpoints=self._config.checkpoints_s > 0, sync=self._config.sync_groups_s > 0, own=True)
        self._record()
        for error in self._followed.stops.errors:
            raise error

    # ---- what goes wrong

    def _failed(self, error: SemelError, tries: Tries) -> None:
        """Wait for what may pass, stop the partition that an error is about, and raise an error of the whole flow."""
        partition = error.partition if stops_a_partition(error) and self._followed.knows(error) else None
        if partition is not None and error.tag not in _MAY_BE_GONE:
            self._stop_partition(partition, error)
        elif error.tag != _UNKNOWN and (
            isinstance(error, AbortAndRetry | Retriable) or error.tag == _ROWS_GONE or partition is not None
        ):
            # rows older than the target keeps them are deleted at each of its retention checks, in the round too; or
            # topics are not there any more, or others: that is looked at first
            self._followed.doubtful = True
            tries.failed(error)
        else:
            raise error

    def _stop_partition(self, partition: TopicPartition, error: SemelError) -> None:
        topic, _ = partition
        positions, stops = self._positions, self._followed.stops
        if error.tag in _TOO_LARGE and topic in self._followed.topics and self._followed.limit_changed(topic):
            return
        if error.tag != _OFFSETS_GONE:
            at = positions.at.get(partition)
            self._followed.stop(partition, error if at is None else explained(error, partition, at.offset))
            return
        if self._config.skips_deleted and self._skip_deleted():
            return
        found = {partition: error}
        active = {p: at for p, at in positions.at.items() if p in self._followed.partitions and not stops.has(p)}
        for other, losses in losses_of(self._source, active, positions).items():
            found[other] = loss_error(losses, advice(self._config.policy))
        for lost, each in found.items():
            self._followed.stop(lost, each)

    def _skip_deleted(self) -> bool:
        """Commit positions after rows that retention has deleted, since the file asks for it. False if there are
        none.
        """
        moved, lost = skip_deleted(self._source, self._positions, self._followed.topics)
        for loss in lost:
            count = loss.end - loss.start
            self._meter.skipped += count
            log.warning("%s: %d offsets were not copied (on.data.loss=skip): %s", self._config.title, count, loss)
        if lost:
            with self._producer.transaction() as txn:
                txn.commit(moved.progress())
        return bool(lost)

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
        check_checkpoints_topic(self._target, self._config)
        self._check_same_flow(last_known(self._target, self._id))
        try:
            self._producer.take_over(group=self._id)
        except DataLoss as error:
            if error.tag != _PROGRESS_LOST:
                raise
            raise positions_lost(self._source, self._target, self._config, self._id) from None
        self._check_same_flow(self._positions)

    def _check_same_flow(self, positions: Positions | None) -> None:
        if positions is not None:
            positions.check_same_flow(self._source.cluster, self._config.policy)

    def _tell_groups(self) -> None:
        if self._producer.progress is not None:
            self._groups.tell(self._positions, segments_end(self._producer.progress, self._segments))
