"""The life of a source task, in KIP-618's order: fence predecessors, read offsets, start, then poll and write.

What the connector raises ends the task as failed, with its trace. What a broker or a lost transaction raises, and may
pass (:class:`~semel.errors.Retriable`, :class:`~semel.errors.AbortAndRetry`), has the task start again, from its
committed offsets. So does a fencing, while the worker still leads. The worker is asked before the id is taken and
after: if it still leads then and wants this task, no other worker has written to the config topic in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from semel.config import ClientConfig
from semel.connect.api import Offset, Partition, SourceBatch, SourceTask, TaskContext
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.stores.own_offsets import Offsets, opened_offsets
from semel.connect.task_report import TaskReport
from semel.connect.tasks.boundaries import Boundary, boundary_of
from semel.connect.tasks.rows import rows_of
from semel.connect.tasks.writers import AtLeastOnce, ExactlyOnce, Writer
from semel.errors import ConfigError, Fenced, Retriable, SemelError
from semel.processes.process import Process
from semel.steps import ConnectStep, reached
from semel.transaction.connect_tasks import task_id
from semel.wire.client import Client

__all__ = ["run"]

#: How long to wait after a poll that gave nothing.
_IDLE_S = 0.1
#: How often the task reports its position to the worker.
_TELL_S = 1.0


def run(process: Process) -> None:
    """Be a task: the entry of its process."""
    try:
        _run(process)
    except Fenced as error:
        if not _wanted(process):
            return
        raise Retriable(
            f"another program has used this task's transactional id: {error.message} This worker still leads, so the"
            " task starts again from its committed offsets.",
            tag="TASK_FENCED",
        ) from error


def _wanted(process: Process) -> bool:
    """Ask the worker, unless it has asked this task to end. Raises :class:`Fenced` where another worker leads."""
    return not process.stopping.is_set() and bool(process.ask({"generation": process.settings["generation"]})["wanted"])


def _run(process: Process) -> None:
    worker = WorkerConfig.parse(process.settings["worker"])
    config = ConnectorConfig.parse(process.settings["connector"], worker)
    number = int(process.settings["task"])
    reached(ConnectStep.TASK_ASSIGNED, f"{config.name}-{number}")
    if not _wanted(process):
        return
    client_id = f"connector-producer-{config.name}-{number}"
    with (
        Client(ClientConfig.parse({"client.id": client_id, **config.clients.producer})) as client,
        opened_offsets(client, worker, config) as store,
    ):
        writer = _writer(client, worker, config, number, store)
        try:
            writer.start()
            reached(ConnectStep.PRODUCER_READY, f"{config.name}-{number}")
            if _wanted(process):
                store.read()
                _Loop(process, config, number, writer).run(store.find)
        except BaseException as error:
            _close_after(writer, error)
            raise
        writer.close()


def _writer(client: Client, worker: WorkerConfig, config: ConnectorConfig, number: int, store: Offsets) -> Writer:
    if worker.exactly_once:
        owner = task_id(worker.group_id, config.name, number)
        return ExactlyOnce(client, owner, store, config.topic_creation)
    return AtLeastOnce(client, store, worker.flush_interval_ms, config.topic_creation)


def _close_after(writer: Writer, error: BaseException) -> None:
    """Close the writer because of ``error``, which is the one to see."""
    try:
        writer.close()
    except SemelError as second:
        error.add_note(f"Closing its producer did not go well either: {second}")


class _Loop:
    """One run of one task."""

    def __init__(self, process: Process, config: ConnectorConfig, number: int, writer: Writer) -> None:
        self._process, self._config, self._number, self._writer = process, config, number, writer
        self._records = self._polled = self._polls = 0
        self._told = 0.0
        self._topics: set[str] = set()
        self._told_topics: set[str] = set()
        shared, own = process.settings["shared"], process.settings["own"]
        #: The task's configuration, as its connector made it.
        self._given = {**{name: config.own[name] for name in shared}, **own}
        self._boundary: Boundary

    def run(self, find: Callable[[Partition], Offset]) -> None:
        """Start the task, and poll until it is asked to end."""
        task = self._config.connector.task()
        if not isinstance(task, SourceTask):
            raise ConfigError(
                f"connector {self._config.name!r} made a {type(task).__name__} as its task. Nothing was read. Its"
                " method task must return a semel.connect.SourceTask.",
                tag="TASK_RESULT",
            )
        self._boundary = boundary_of(self._config, self._writer, task)
        try:
            task.start(self._given, TaskContext(find, self._boundary.context))
            reached(ConnectStep.TASK_STARTED, f"{self._config.name}-{self._number}")
            self._tell(now=True)
            while not self._process.stopping.is_set():
                self._poll(task)
            self._boundary.end()
            self._tell(now=True)
        finally:
            task.stop()

    def _poll(self, task: SourceTask) -> None:
        polled = task.poll()
        if polled is None or (isinstance(polled, Sequence) and not polled):
            self._boundary.idle()
            self._tell(now=False)
            self._process.stopping.wait(_IDLE_S)
            return
        reached(ConnectStep.POLLED, f"{self._config.name}-{self._number}")
        for part, end in self._boundary.split(polled):
            rows = rows_of(part, self._config, self._number, self._writer.refusal)
            self._polled += part.table.num_rows if isinstance(part, SourceBatch) else len(part)
            if rows is not None:
                self._boundary.write(rows, part)
                self._records += rows.count
                self._topics |= {topic for topic, _ in rows.tables}
            self._boundary.finish_part(end)
        self._polls += 1
        self._tell(now=False)

    def _tell(self, *, now: bool) -> None:
        if now or self._topics - self._told_topics or time.monotonic() - self._told >= _TELL_S:
            self._told, self._told_topics = time.monotonic(), set(self._topics)
            report = TaskReport(
                records=self._records,
                polls=self._polls,
                polled=self._polled,
                commits=self._boundary.commits,
                open_ms=self._writer.open_ms,
                topics=sorted(self._topics),
            )
            self._process.tell(report.message())
