"""The life of a sink's task: join the group, open its partitions, put records, flush, commit the offsets.

Offsets are committed after their records were put and flushed, so a crash repeats records and loses none. A target that
keeps offsets itself says in ``open`` where it stands: then nothing is repeated in it.

What ``put`` raises ends the task as failed, unless it is :class:`~semel.errors.Retriable`: then the same batch is put
again after a pause. Heartbeats are sent meanwhile, and the group may move the partitions.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Mapping

from semel.config import ClientConfig
from semel.connect.settings.clients import consumer_client
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.sink_api import SinkContext, SinkRecord, SinkTask
from semel.connect.sinks.batches import Batches
from semel.connect.sinks.dead_letters import DeadLetters
from semel.connect.sinks.reader import GroupReader, ReadBatch
from semel.connect.task_report import TaskReport
from semel.errors import ConfigError, Fenced, Retriable
from semel.processes.process import Process
from semel.read.ranges import id_text
from semel.steps import SinkTaskStep, reached
from semel.wire.backoff import Backoff
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["run"]

log = logging.getLogger("semel.connect")

#: How often the task reports to the worker.
_TELL_S = 1.0
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.1, 5.0
#: How often a wait before the next try takes part in the group.
_FOLLOW_S = 0.2


def run(process: Process) -> None:
    """Be a task: the entry of its process."""
    worker = WorkerConfig.parse(process.settings["worker"])
    config = ConnectorConfig.parse(process.settings["connector"], worker)
    number = int(process.settings["task"])
    reached(SinkTaskStep.SINK_ASSIGNED, f"{config.name}-{number}")
    if not process.ask({"generation": process.settings["generation"]})["wanted"]:
        return
    client_id = f"connector-consumer-{config.name}-{number}"
    properties = {"client.id": client_id, **consumer_client(config.clients.consumer)}
    with Client(ClientConfig.parse(properties)) as client:
        loop = _Loop(process, config, number, client, worker.flush_interval_ms)
        try:
            loop.run()
        except Fenced as error:
            raise Retriable(
                f"another task has taken this task's partitions over: {error.message} The task joins its group again.",
                tag="TASK_FENCED",
            ) from error


class _Loop:
    """One run of one task: also what its group's reader calls as partitions come and go."""

    def __init__(
        self, process: Process, config: ConnectorConfig, number: int, client: Client, interval_ms: int
    ) -> None:
        assert config.sink is not None
        self._process, self._config, self._name = process, config, f"{config.name}-{number}"
        self._client, self._interval_s = client, interval_ms / 1000
        self._letters = DeadLetters(config, number)
        self._batches = Batches(config, number, self._letters.take)
        self._reader = GroupReader(client, config.sink, self)
        self._context = SinkContext()
        self._records = self._read = self._batches_put = self._commits = 0
        self._topics: set[str] = set()
        self._told = self._committed_at = time.monotonic()
        #: The newest offsets that were committed.
        self._committed: dict[TopicPartition, int] = {}
        #: A batch that is not put yet.
        self._pending: ReadBatch | None = None
        shared, own = process.settings["shared"], process.settings["own"]
        self._given = {**{name: config.own[name] for name in shared}, **own}
        self._task: SinkTask

    def run(self) -> None:
        """Start the task, and put records until it is asked to end."""
        self._task = self._made_task()
        try:
            self._task.start(self._given, self._context)
            if self._config.tolerate_errors:
                self._context.errant_record_reporter = self._report
            reached(SinkTaskStep.SINK_STARTED, self._name)
            self._tell(now=True)
            self._put_all()
        finally:
            self._letters.close()
            self._task.stop()

    def _made_task(self) -> SinkTask:
        task = self._config.connector.task()
        if not isinstance(task, SinkTask):
            raise ConfigError(
                f"connector {self._config.name!r} made a {type(task).__name__} as its task. Nothing was written. Its"
                " method task must return a semel.connect.SinkTask.",
                tag="TASK_RESULT",
            )
        return task

    def _put_all(self) -> None:
        try:
            while not self._process.stopping.is_set():
                self._reader.follow()
                self._apply_context()
                read = self._reader.next()
                if read is not None:
                    self._put(read)
                self._apply_context()
                if self._commit_is_due():
                    self._commit()
                self._tell(now=False)
        except BaseException:
            self._reader.leave()
            raise
        self._reader.close()
        self._tell(now=True)

    # ---- records

    def _put(self, read: ReadBatch) -> None:
        """Put one batch; again while the task asks for that. The group may move the partition meanwhile."""
        self._pending = read
        reached(SinkTaskStep.RECORDS_READ, self._name)
        batch = self._batches.batch(read)
        self._letters.flush()  # a target with its own offsets commits them in put
        self._read += read.rows.num_rows
        backoff = Backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        while True:
            try:
                self._task.put(batch)
                break
            except Retriable as error:
                log.warning("task %s puts a batch again: %s", self._name, error)
                pause = self._context.timeout_ms
                self._context.timeout_ms = None
                if not self._pause(backoff.next() if pause is None else pause / 1000):
                    return  # if the task is to end, the batch stays pending: its offsets are not committed
        self._letters.flush()
        self._pending = None
        self._records += batch.num_rows
        self._batches_put += 1
        self._topics.add(read.partition[0])
        reached(SinkTaskStep.RECORDS_PUT, self._name)

    def _pause(self, seconds: float) -> bool:
        """Wait before the next try. Return False if the batch is no longer this task's to put."""
        end = time.monotonic() + seconds
        while True:
            if self._process.stopping.wait(max(0.0, min(_FOLLOW_S, end - time.monotonic()))):
                return False
            if self._reader.follow():
                return False
            if time.monotonic() >= end:
                return True

    def _report(self, record: SinkRecord, error: BaseException) -> None:
        self._letters.report(self._pending.rows if self._pending is not None else None, record, error)
        self._letters.flush()

    # ---- partitions

    def open(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Open the task's partitions. Return the offsets that it names."""
        context = self._context
        context.assignment, context.positions = frozenset(positions), dict(positions)
        topics = self._client.topics({topic for topic, _ in positions})
        context.topic_ids = {name: id_text(topic.id) for name, topic in topics.items()}
        context.offsets, context.paused = {}, set()
        self._pending = None
        self._task.open(context.assignment)
        offsets, context.offsets = context.offsets, {}
        reached(SinkTaskStep.PARTITIONS_OPENED, self._name)
        return offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Commit what was put, and close the partitions. Others may have them when it returns."""
        try:
            self._commit()
        except (Fenced, Retriable, ConfigError) as error:  # the next task begins at what is committed
            log.warning("task %s gives up partitions without their newest offsets: %s", self._name, error)
        self._task.close(partitions)
        self._pending, self._committed = None, {}
        self._context.assignment = ()
        reached(SinkTaskStep.PARTITIONS_CLOSED, self._name)

    def _apply_context(self) -> None:
        context = self._context
        if context.offsets:
            offsets, context.offsets = context.offsets, {}
            self._reader.seek(offsets)
        self._reader.pause(context.paused & set(context.assignment))

    # ---- offsets

    def _commit_is_due(self) -> bool:
        return time.monotonic() >= min(self._context.commit_at, self._committed_at + self._interval_s)

    def _commit(self) -> None:
        """Have the task flush, and commit the offsets that it gives."""
        self._context.commit_at, self._committed_at = math.inf, time.monotonic()
        put = dict(self._reader.positions)
        if self._pending is not None:
            put[self._pending.partition] = self._pending.start
        if not put:
            return
        given = self._task.pre_commit(put)
        reached(SinkTaskStep.TARGET_FLUSHED, self._name)
        self._letters.flush()
        offsets = {one: min(at, put[one]) for one, at in given.items() if one in put}
        offsets = {one: at for one, at in offsets.items() if self._committed.get(one) != at}
        if offsets and self._reader.commit(offsets):
            self._committed.update(offsets)
            self._commits += 1
            reached(SinkTaskStep.GROUP_COMMITTED, self._name)

    def _tell(self, *, now: bool) -> None:
        if now or time.monotonic() - self._told >= _TELL_S:
            self._told = time.monotonic()
            report = TaskReport(
                records=self._records,
                polls=self._batches_put,
                polled=self._read,
                commits=self._commits,
                open_ms=None,
                topics=sorted(self._topics),
            )
            self._process.tell(report.message())
