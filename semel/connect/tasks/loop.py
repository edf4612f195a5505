"""The life of a source task, in KIP-618's order: fence predecessors, read offsets, start, then poll and write.

What the connector raises ends the task as failed, with its trace. What a broker or a lost transaction raises, and may
pass (:class:`~semel.errors.Retriable`, :class:`~semel.errors.AbortAndRetry`), has the task begin anew, from its
committed offsets.
"""

from __future__ import annotations

import time

from semel.config import ClientConfig
from semel.connect.api import SourceTask, TaskContext
from semel.connect.config import ConnectorConfig, WorkerConfig
from semel.connect.stores.offsets import OffsetStore
from semel.connect.tasks.rows import rows_of
from semel.connect.tasks.writers import AtLeastOnce, ExactlyOnce, Writer
from semel.errors import ConfigError, SemelError
from semel.runtime.process import Process
from semel.steps import ConnectStep, reached
from semel.wire.client import Client

__all__ = ["run", "transactional_id"]

#: How long to wait after a poll that gave nothing.
_IDLE_S = 0.1
#: How often the worker is told how far it is.
_TELL_S = 1.0


def transactional_id(group_id: str, connector: str, task: int) -> str:
    """The id of a task, as Kafka Connect names it."""
    return f"{group_id}-{connector}-{task}"


def run(process: Process) -> None:
    """Be a task: the entry of its process."""
    worker = WorkerConfig.parse(process.settings["worker"])
    config = ConnectorConfig.parse(process.settings["connector"], worker)
    number = int(process.settings["task"])
    reached(ConnectStep.TASK_ASSIGNED, f"{config.name}-{number}")
    client_id = f"connector-producer-{config.name}-{number}"
    with Client(ClientConfig.parse({"client.id": client_id, **worker.producer})) as client:
        store = OffsetStore(client, worker.offsets_topic, config.name)
        writer = _writer(client, worker, config, number, store)
        try:
            writer.start()
            reached(ConnectStep.PRODUCER_READY, f"{config.name}-{number}")
            store.read()
            _Loop(process, config, number, writer).run(TaskContext(store.find))
        except BaseException as error:
            _close_after(writer, error)
            raise
        writer.close()


def _writer(client: Client, worker: WorkerConfig, config: ConnectorConfig, number: int, store: OffsetStore) -> Writer:
    if worker.exactly_once:
        return ExactlyOnce(client, transactional_id(worker.group_id, config.name, number), store)
    return AtLeastOnce(client, store, worker.flush_interval_ms)


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
        self._records = self._polls = 0
        self._told = 0.0

    def run(self, context: TaskContext) -> None:
        """Start the task, and poll until it is asked to end."""
        task = self._config.connector.task()
        if not isinstance(task, SourceTask):
            raise ConfigError(
                f"connector {self._config.name!r} made a {type(task).__name__} as its task. Nothing was read. Its"
                " method task must return a semel.connect.SourceTask.",
                tag="TASK_RESULT",
            )
        try:
            task.start(self._process.settings["config"], context)
            reached(ConnectStep.TASK_STARTED, f"{self._config.name}-{self._number}")
            self._tell(now=True)
            while not self._process.stopping.is_set():
                self._poll(task)
            self._tell(now=True)
        finally:
            task.stop()

    def _poll(self, task: SourceTask) -> None:
        rows = rows_of(task.poll(), self._config, self._number)
        if rows is None:
            self._writer.idle()
            self._tell(now=False)
            self._process.stopping.wait(_IDLE_S)
            return
        reached(ConnectStep.POLLED, f"{self._config.name}-{self._number}")
        self._writer.write(rows)
        self._records += rows.count
        self._polls += 1
        self._tell(now=False)
        task.commit()

    def _tell(self, *, now: bool) -> None:
        if now or time.monotonic() - self._told >= _TELL_S:
            self._told = time.monotonic()
            self._process.tell({"records": self._records, "polls": self._polls})
