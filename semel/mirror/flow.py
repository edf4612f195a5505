"""A flow: from one cluster to one other, round by round, until it is stopped. Start reading here.

A round is one transaction on the target: see where each source partition is stable, give disjoint target partitions to
few tasks, and when it is proven that each has written once, commit the positions with their records. What may pass is
waited for. A doubt about what is there, or should be, ends the flow.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession

from semel.config import ClientConfig
from semel.errors import AbortAndRetry, ConfigError, DataLoss, Retriable
from semel.mirror.losses import (
    check_no_rows_without_position,
    check_not_lost,
    check_targets_exist,
    check_targets_unchanged,
)
from semel.mirror.positions import SCOPE, OffsetAndEpoch, Positions, flow_id
from semel.mirror.properties import FlowConfig
from semel.mirror.task import Assignment, Copied, copy
from semel.mirror.topics import MirroredTopic, find, follow, wants
from semel.read.ranges import Range, id_text
from semel.spark.sink.job_timeout import cancel_jobs_after
from semel.spark.sink.stage_retries import prove_tasks
from semel.steps import MirrorStep, reached
from semel.transaction.output_topics import non_transactional_tickets
from semel.transaction.producer import Producer
from semel.transaction.progress.topic import ProgressTopic
from semel.wire.api.offsets import EARLIEST, LATEST, Listed, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["Flow", "spark_session"]

log = logging.getLogger("semel.mirror")

#: How long nothing is asked when nothing was new.
_IDLE_S = 0.2
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
#: So often in a row ``once`` tries a round.
_TRIES = 5
#: Offsets that are worth a task of their own.
_OFFSETS_PER_TASK = 50_000
_GONE = ("UNKNOWN_TOPIC", "UNKNOWN_PARTITION")
_UNKNOWN, _ROWS_GONE = "OUTCOME_UNKNOWN", "ROWS_GONE"

Ends = Mapping[TopicPartition, Listed]


class Flow:
    """Copies by a :class:`FlowConfig`. ``stop`` ends it behind the round that it is in."""

    def __init__(self, spark: SparkSession, config: FlowConfig, stop: threading.Event) -> None:
        self._spark = spark
        self._config = config
        self._stop = stop
        self._id = flow_id(config.policy.source, config.policy.target)

    def run(self, *, once: bool = False) -> None:
        """Copy until it is stopped; with ``once``, until what is there now is copied.

        Raises :class:`ConfigError` for what the file or a cluster must change, :class:`DataLoss` where rows of the
        source or the target are gone, :class:`~semel.errors.Fenced` if another mirror has taken over. What may pass is
        waited for, and raised with ``once`` after a few tries.
        """
        _check_speculation_off(self._spark)
        tries = _Tries(self._config.title, self._stop, most=_TRIES if once else None)
        while not self._stop.is_set():
            try:
                with _Session(self._spark, self._config, self._id, self._stop) as session:
                    session.work(tries, once=once)
            except (AbortAndRetry, Retriable) as error:
                # a cluster is away, or nobody said how the last round ended: taking over tells
                tries.failed(error)
            else:
                return


class _Tries:
    """How often in a row it did not go well, and for how long to hold back. None of ``most``: for ever."""

    def __init__(self, title: str, stop: threading.Event, most: int | None) -> None:
        self._title, self._stop, self._most = title, stop, most
        self._failed = 0

    def succeeded(self) -> None:
        """Begin to count anew."""
        self._failed = 0

    def failed(self, error: AbortAndRetry | Retriable | DataLoss) -> None:
        """Wait, or raise the error where it was tried often enough. What a stop has interrupted is no failure."""
        self._failed += 1
        if self._stop.is_set():
            return
        if self._most is not None and self._failed >= self._most:
            raise error
        pause = min(_FIRST_PAUSE_S * 2 ** (self._failed - 1), _LONGEST_PAUSE_S)
        log.warning("%s: tried again in %.1f s: %s", self._title, pause, error)
        self._stop.wait(pause)


class _Session:
    """A flow between taking over and letting go."""

    def __init__(self, spark: SparkSession, config: FlowConfig, id: str, stop: threading.Event) -> None:
        self._spark, self._config, self._stop, self._id = spark, config, stop, id
        self._source = Client(ClientConfig.parse(config.source))
        self._target = Client(ClientConfig.parse(config.target))
        self._producer = Producer(self._target, id, scope=SCOPE)
        self._topics: dict[str, MirroredTopic] = {}
        self._followed: float | None = None

    def __enter__(self) -> _Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            self._producer.__exit__(kind, error, trace)
        finally:
            self._source.close()
            self._target.close()

    @property
    def _positions(self) -> Positions:
        """As they are committed."""
        progress = self._producer.progress
        if progress is None:
            return Positions.begin(self._source.cluster, self._config.policy)
        return Positions.of(progress, self._id)

    def work(self, tries: _Tries, *, once: bool) -> None:
        """Rounds, until it is stopped or, with ``once``, done."""
        self._take_over()
        wanted: Ends | None = None
        while not self._stop.is_set():
            try:
                if self._refresh_is_due():
                    self._follow()
                if once and wanted is None:
                    wanted = self._ends()
                moved = self._round(wanted)
            except AbortAndRetry as error:
                tries.failed(error)
                continue
            except Retriable as error:
                if error.tag == _UNKNOWN:
                    raise
                tries.failed(error)
                continue
            except DataLoss as error:
                if error.tag != _ROWS_GONE:
                    raise
                # rows older than the target keeps them are deleted at each of its retention checks, in the round too;
                # or its topics are not there any more, or others: that is looked at first
                self._followed = None
                tries.failed(error)
                continue
            tries.succeeded()
            if not moved and wanted is not None:
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
        self._check_same_flow(self._last_known())  # before anybody is fenced
        self._producer.take_over()
        self._check_same_flow(self._positions)

    def _last_known(self) -> Positions | None:
        """The newest committed positions, read as anybody may."""
        deadline = self._target.deadline()
        topic = ProgressTopic(self._target, self._id, SCOPE)
        if not topic.exists(deadline):
            return None
        newest = topic.read(topic.write_read_barrier(), deadline).newest
        return None if newest is None else Positions.of(newest.progress, self._id)

    def _check_same_flow(self, positions: Positions | None) -> None:
        if positions is not None:
            positions.check_same_flow(self._source.cluster, self._config.policy)

    def _refresh_is_due(self) -> bool:
        return self._followed is None or 0 < self._config.refresh_s < time.monotonic() - self._followed

    def _follow(self) -> None:
        """Find topics and partitions, have them on the target, and commit where those begin that were not there before.

        Of topics that were mirrored, and are not there any more or others now, nobody knows whether all was copied.
        """
        positions, before, alias = self._positions, self._topics, self._config.policy.target
        found = find(self._source, self._config)
        same = {name for name, topic in found.items() if positions.ids.get(name) == id_text(topic.id)}
        doubtful = {name for name in positions.ids.keys() - same if wants(self._config, name)}
        if doubtful:
            check_not_lost(self._source, {p: at for p, at in positions.at.items() if p[0] in doubtful}, positions)
            raise Retriable(f"{min(doubtful)} seemed to be another topic, or gone, for a moment. Nothing was copied.")
        check_targets_exist(self._target, alias, {name: positions.targets[name][0] for name in same})
        self._topics = follow(self._source, self._target, self._config, found, before)
        check_targets_unchanged(alias, self._topics, positions)
        reached(MirrorStep.TOPICS_FOLLOWED, self._id)
        self._begin(positions)
        if self._followed is None or self._topics != before:
            log.info("%s: %d topics, of %d partitions", self._config.title, len(self._topics), len(self._partitions()))
        self._followed = time.monotonic()

    def _begin(self, positions: Positions) -> None:
        """Commit where partitions begin that have no position, before the first of their batches is written."""
        found = self._partitions().keys() - positions.at.keys()
        if not found:
            return
        written = {self._partitions()[partition]: partition for partition in found}
        check_no_rows_without_position(self._target, self._config.policy.target, self._topics, written)
        begins = self._beginnings(found, anew=self._producer.progress is None)
        topics = {topic: self._topics[topic] for topic, _ in found}
        ids = {name: topic.id for name, topic in topics.items()}
        targets = {name: (topic.target, id_text(topic.ticket.id)) for name, topic in topics.items()}
        with self._producer.transaction() as txn:
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
        """Where partitions begin: those that are found later at their earliest offset, all of them are the mirror's."""
        at = LATEST if anew and self._config.start == "latest" else EARLIEST
        listed = list_offsets(self._source, dict.fromkeys(found, at), read_committed=True)
        return {partition: OffsetAndEpoch(row.offset) for partition, row in listed.items()}

    # ---- a round

    def _ends(self) -> Ends:
        """The last stable offset of each partition that is mirrored."""
        partitions = self._partitions()
        if not partitions:
            return {}
        try:
            return list_offsets(self._source, dict.fromkeys(partitions, LATEST), read_committed=True)
        except ConfigError as error:
            if error.tag not in _GONE:
                raise
            positions = self._positions
            check_not_lost(self._source, {p: positions.at[p] for p in partitions if p in positions.at}, positions)
            raise Retriable(
                "a topic seemed to be gone for a moment, and is there. Nothing was copied by this round."
            ) from None

    def _round(self, wanted: Ends | None) -> bool:
        """Copy what is stable and new, at most up to what is ``wanted``. False if there was nothing."""
        began = time.monotonic()
        positions = self._positions
        parts = self._plan(positions, self._ends(), wanted)
        if not parts:
            return False
        shares = _shared_out(parts, self._spark.sparkContext.defaultParallelism)
        reached(MirrorStep.PLANNED, self._id)
        number = positions.round + 1
        copying = self._copy_in_transaction if self._config.exactly_once else self._copy_at_once
        copied = copying(shares, positions)
        reached(MirrorStep.COMMITTED, self._id)
        wrote = [wrote for receipt in copied.receipts for wrote in receipt.wrote.values()]
        log.info(
            "%s: round %d: %d records, %d bytes, %d of %d partitions, %.0f ms",
            self._config.title,
            number,
            sum(one.records for one in wrote),
            sum(one.size for one in wrote),
            len(copied.ends),
            len(positions.at),
            (time.monotonic() - began) * 1000,
        )
        return True

    def _plan(self, positions: Positions, ends: Ends, wanted: Ends | None) -> list[Assignment]:
        targets = self._partitions()
        parts: list[Assignment] = []
        behind: dict[TopicPartition, OffsetAndEpoch] = {}
        for partition, listed in ends.items():
            at = positions.at[partition]
            if listed.offset < at.offset:
                behind[partition] = at
            elif 0 <= listed.leader_epoch < at.epoch:
                # a leader that was deposed since, and may name rows that were cut: nothing is new for now
                if wanted is not None:
                    raise Retriable(
                        f"{partition[0]}-{partition[1]} was answered for by an old leader. Nothing was copied."
                    )
            else:
                most = wanted[partition].offset if wanted is not None and partition in wanted else listed.offset
                end = min(listed.offset, most)
                if end > at.offset:
                    topic, index = partition
                    planned = Range(topic, positions.ids[topic], index, at.offset, end, listed.leader_epoch)
                    parts.append(Assignment(planned, at.epoch, targets[partition]))
        check_not_lost(self._source, behind, positions)
        return parts

    def _copy_in_transaction(self, shares: Sequence[Sequence[Assignment]], positions: Positions) -> Copied:
        with self._producer.transaction() as txn:
            topics = {mirrored.target: mirrored.ticket for mirrored in self._topics.values()}
            tickets = txn.tickets([[part.target for part in share] for share in shares], topics)
            with self._job(self._producer.timeout_ms - txn.age_ms):
                copied = copy(self._spark.sparkContext, shares, tickets, self._config.source, self._config.target)
                reached(MirrorStep.COPIED, self._id)
                prove_tasks(self._spark, copied.receipts)
            reached(MirrorStep.PROVEN, self._id)
            txn.accept(copied.receipts)
            txn.commit(positions.moved(copied.ends).progress())
        return copied

    def _copy_at_once(self, shares: Sequence[Sequence[Assignment]], positions: Positions) -> Copied:
        """At least once: rows are visible as they come, and a round that dies in between writes them again."""
        topics = {mirrored.target: mirrored.ticket for mirrored in self._topics.values()}
        tickets = non_transactional_tickets([[part.target for part in share] for share in shares], topics)
        with self._job(self._producer.timeout_ms):
            copied = copy(self._spark.sparkContext, shares, tickets, self._config.source, self._config.target)
        reached(MirrorStep.COPIED, self._id)
        with self._producer.transaction() as txn:
            txn.commit(positions.moved(copied.ends).progress())
        return copied

    @contextmanager
    def _job(self, milliseconds: float) -> Iterator[None]:
        """One job, in a group of its own, by which it is found in Spark's books; cancelled when it outlives the
        transaction.
        """
        context, tag = self._spark.sparkContext, f"semel-mirror-{uuid.uuid4()}"
        context.setJobGroup(tag, f"semel mirror {self._config.title}")
        with cancel_jobs_after(self._spark, milliseconds, tag):
            yield


def _shared_out(parts: Sequence[Assignment], most: int) -> list[list[Assignment]]:
    """The partitions of each task, of about as many offsets: few tasks, since each costs time and so does each
    request.
    """
    offsets = sum(part.range.size for part in parts)
    tasks = min(max(math.ceil(offsets / _OFFSETS_PER_TASK), 1), most, len(parts))
    shares: list[list[Assignment]] = [[] for _ in range(tasks)]
    sizes = [0] * tasks
    for part in sorted(parts, key=lambda part: -part.range.size):
        least = sizes.index(min(sizes))
        shares[least].append(part)
        sizes[least] += part.range.size
    return shares


def spark_session(master: str, settings: Mapping[str, str]) -> SparkSession:
    """What the jobs run in: as spark-submit was told, where that has started this program.

    On this machine its Python workers are of this Python, unless somebody has said of which: that of the PATH may lack
    semel.
    """
    here = master.startswith("local") or not (master or "PYSPARK_SUBMIT_ARGS" in os.environ)
    if here and "spark.pyspark.python" not in settings:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("semel mirror").config("spark.ui.showConsoleProgress", "false")
    if master:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _check_speculation_off(spark: SparkSession) -> None:
    if (spark.sparkContext.getConf().get("spark.speculation") or "false").strip().lower() == "true":
        raise ConfigError(
            "spark.speculation is on: it runs two attempts of a task at once, and both would write into one"
            " transaction. Nothing was copied. Set spark.speculation=false.",
            tag="SPECULATION",
        )
