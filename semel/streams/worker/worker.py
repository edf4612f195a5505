"""A worker: a member of the application's group, one transaction at a time for all of its tasks.

Rows go through the tasks in slices, as they come. Between two slices it polls the group. At each commit interval what
the sinks have written, the changes of all stores, and the group's offsets are committed in one transaction. When that
is answered, and not before, the changes go into the stores, each with the offset that its changelog has reached.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from semel.errors import ConfigError, Retriable, SemelError
from semel.read.ranges import id_text
from semel.steps import StreamsStep, reached
from semel.streams.clock import now_ms
from semel.streams.metrics import WorkerCounts
from semel.streams.settings import Settings
from semel.streams.state.backend import DamagedStore
from semel.streams.state.folders import delete
from semel.streams.state.global_stores import GlobalStores
from semel.streams.state.state_store import StateStore
from semel.streams.topology.node import SubTopology
from semel.streams.topology.topology import Topology
from semel.streams.worker.bad_records import check_handlers
from semel.streams.worker.inputs import WorkerInputs
from semel.streams.worker.pace import Pace, pace_of
from semel.streams.worker.task import Task
from semel.streams.worker.task_assignor import Standbys, TaskAssignor
from semel.streams.worker.task_manager import TaskManager
from semel.transaction.output_topics import OutputTopics
from semel.transaction.session import Session
from semel.transaction.session.inputs import RowOrder
from semel.wire.api.topics import delete_records
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["Worker"]

log = logging.getLogger("semel.streams")

#: Rows that sinks have written are sent on when so many have come together, and at each commit.
_OUTPUT_ROWS = 65_536
_AGAIN_S = 1.0
#: How often records of repartition topics are deleted that all have read: Kafka Streams' repartition.purge.interval.ms.
_PURGE_S = 30.0


class Application(Protocol):
    """What a worker needs of an :class:`~semel.streams.app.App`."""

    @property
    def topology(self) -> Topology:
        """Its nodes."""

    @property
    def settings(self) -> Settings:
        """Its properties, checked."""

    @property
    def counts(self) -> WorkerCounts:
        """What its worker has done in this process."""


class Worker:
    """One thread uses it. A context manager, which aborts at its end what was not committed."""

    def __init__(self, app: Application, stop: threading.Event | None = None) -> None:
        self._stop = stop or threading.Event()
        self._topology = app.topology
        self._counts = app.counts
        self._settings = app.settings
        self._client = Client(_polling_often(self._settings))
        self._output_topics = OutputTopics(self._client)
        self._paces: dict[int, Pace] = {}
        self._output: dict[str, list[Any]] = defaultdict(list)
        self._rows = 0
        check_handlers(self._topology)
        self._processed = False
        self._commit_at = 0.0
        self._purge_at = time.monotonic() + _PURGE_S
        try:
            self._inputs = WorkerInputs(self._client, self._topology, self._settings.replication_factor)
            parts = self._inputs.plan.all_parts
            self._paces = {part.number: pace_of(part, self._settings) for part in parts}
            self._globals = GlobalStores(self._client, self._topology, self._settings)
            self._tasks = TaskManager(
                self._client, self._topology, self._settings, self._inputs, self._counts, self._new_task
            )
            standbys = Standbys.of(self._settings, [part.number for part in parts if part.stores])
            self._assignor = TaskAssignor(self._topology.inputs_by_part, self._tasks.claims, standbys)
            try:
                self._session = self._join()
            except BaseException:
                self._tasks.end()
                self._globals.close()
                raise
        except BaseException:
            self._client.close()
            raise

    def _join(self) -> Session:
        settings = self._settings
        return Session(
            self._client,
            self._topology.application_id,
            group=self._topology.application_id,
            topics=sorted(self._inputs.plan.parts),
            group_instance_id=settings.group_instance_id,
            auto_offset_reset=settings.auto_offset_reset,
            session_timeout_ms=settings.session_timeout_ms,
            max_poll_interval_ms=settings.max_poll_interval_ms,
            assignors=(self._assignor,),
            from_earliest=self._inputs.plan.repartition,  # what is written there before it is read counts
            headers=True,
            listener=self,
            stopping=self._stop.is_set,
        )

    @classmethod
    def run(cls, app: Application, stop: threading.Event) -> None:
        """Work until ``stop``. What a new start cures is cured by one."""
        while not stop.is_set():
            try:
                with cls(app, stop) as worker:
                    while not stop.is_set():
                        worker.step()
                    worker.commit()
            except Retriable as error:
                log.warning("%s. It starts again: taking over finds out how far it is.", error)
                stop.wait(_AGAIN_S)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def tasks(self) -> list[Task]:
        """The tasks that it works on now."""
        return self._tasks.all

    @property
    def restoring(self) -> bool:
        """True while a task waits for its state."""
        return len(self._tasks.running) < len(self._tasks.all)

    def step(self) -> bool:
        """Work on the next slice of rows, or wait for some until the next commit is due, and commit then. Returns
        whether there were rows.
        """
        left = self._commit_at - time.monotonic() if self._processed else self._settings.commit_interval_ms / 1000
        due = (one.next_clock_ms for one in self._tasks.running)
        left = max(min([left, *((at - now_ms()) / 1000 for at in due if at is not None)]), 0.0)
        if not self._take_restored():
            return False
        self._tasks.clean()
        if self._inputs.look():
            self._session.subscribe(self._inputs.plan.parts)
            self.commit()  # what is not committed is aborted at the rebalance
            self._inputs.check_read(self._session.was_read)
        rows = self._poll(0.0 if self._tasks.idle else left)
        if rows is None and self._tasks.idle:
            self._tasks.wait(left)
        self._globals.refresh()
        self._inputs.check()
        if rows is not None:
            self._work(rows)
        self._punctuate()
        if self._processed and time.monotonic() >= self._commit_at:
            self.commit()
        return rows is not None

    def _poll(self, timeout: float) -> Any:
        """Return the next rows. A topic of a pattern may be deleted, once its rows are committed."""
        try:
            return self._session.poll(timeout)
        except SemelError as error:
            self._leave_deleted(error)
            return None

    def _leave_deleted(self, error: SemelError) -> None:
        """Read on without the topics of patterns that were deleted. Raise ``error`` if it has another reason, and
        :class:`DataLoss` if rows are lost.
        """
        if not self._inputs.deleted(error):
            raise error
        self._inputs.check_read(self._session.was_read)
        self._assignor.ask()
        self._session.subscribe(self._inputs.plan.parts)

    def _take_restored(self) -> bool:
        """Let the tasks work whose state has come. Return False if a store is damaged: all begin again."""
        try:
            self._tasks.take_restored()
        except DamagedStore as error:
            self._throw_away(error)
            return False
        return True

    def _punctuate(self) -> None:
        """Call what is scheduled by the machine's clock and due. What it has made is committed with the next commit."""
        for task in self._tasks.running:
            at = task.next_clock_ms
            if at is None or at > now_ms():
                continue
            self._begin()
            try:
                task.punctuate_by_clock()
            except DamagedStore as error:
                self._throw_away(error)
                return

    def _begin(self) -> None:
        """Take note that there is something to commit."""
        if not self._processed:
            self._processed = True
            self._commit_at = time.monotonic() + self._settings.commit_interval_ms / 1000

    def _work(self, rows: Any) -> None:
        self._begin()
        topic, index = rows["topic"][0].as_py(), rows["partition"][0].as_py()
        began = time.monotonic()
        try:
            self._tasks.of(topic, index).process_by_time(rows)
        except DamagedStore as error:
            self._throw_away(error)
            return
        self._pace(topic).took(rows.num_rows, time.monotonic() - began)
        self._counts.processed[self._tasks.of(topic, index).id] += rows.num_rows
        reached(StreamsStep.PROCESSED, self._tasks.of(topic, index).id)
        if self._rows >= _OUTPUT_ROWS:
            self._send_output()

    def commit(self) -> bool:
        """Commit what was worked on since the last commit. Returns False where it was aborted instead: its rows come
        again.
        """
        if not self._processed:
            return True
        self._send_output()
        try:
            changed = self._send_changes()
        except DamagedStore as error:
            self._throw_away(error)
            return False
        reached(StreamsStep.CHANGELOG_SENT, self._topology.application_id)
        self._processed = False
        try:
            if not self._session.commit():
                return False
        except ConfigError as error:  # the broker takes no offsets of a topic that was deleted
            self._leave_deleted(error)
            return False
        self._counts.commits += 1
        reached(StreamsStep.COMMITTED, self._topology.application_id)
        try:
            self._store(changed)
        except DamagedStore as error:
            self._throw_away(error)
        reached(StreamsStep.STORED, self._topology.application_id)
        if time.monotonic() >= self._purge_at:
            self.purge()
        return True

    def purge(self) -> None:
        """Delete what this worker has read of repartition topics: it is not read again. If that fails, the topics stay
        longer for a while.
        """
        self._purge_at = time.monotonic() + _PURGE_S
        read = {p: at for p, at in self._session.committed.items() if p[0] in self._inputs.plan.repartition}
        if read:
            try:
                delete_records(self._client, read)
            except SemelError as error:
                log.warning("records of repartition topics that were read could not be deleted: %s", error)

    # ---- what is written

    def _take_output(self, topic: str, records: Any) -> None:
        self._output[topic].append(records)
        self._rows += records.num_rows

    def _send_output(self) -> None:
        output, self._output, self._rows = self._output, defaultdict(list), 0
        for topic, batches in output.items():  # where the transaction is lost, all is forgotten in the middle of this
            tables = [pa.Table.from_batches([batch]) for batch in batches]  # some have headers
            self._session.send(topic, pa.concat_tables(tables, promote_options="default"), wait=False)

    def _send_changes(self) -> dict[TopicPartition, StateStore]:
        """Write the changes of all stores to their changelogs. Returns the stores that have some."""
        changed: dict[TopicPartition, StateStore] = {}
        by_topic: dict[str, dict[int, pa.Table]] = defaultdict(dict)
        for task in self._tasks.running:
            for name, store in task.stores.items():
                topic = self._topology.changelog(name)
                changes = store.changes() if store.changed else None
                if changes is not None and changes.num_rows:  # all may have been windows that are too old
                    changed[topic, task.partition] = store
                    by_topic[topic][task.partition] = _with_partition(changes, task.partition)
        for topic, tables in by_topic.items():
            self._session.send(topic, pa.concat_tables(tables.values()), wait=False)
        return changed

    def _store(self, changed: dict[TopicPartition, StateStore]) -> None:
        ids = self._client.topics({topic for topic, _ in changed})
        for partition, store in changed.items():
            store.apply(id_text(ids[partition[0]].id), self._session.written[partition] + 1)

    # ---- the group

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Open a task for each partition, and begin to restore its state. Called by the session, before it hands out
        rows.
        """
        try:
            said = self._assignor.topics
            if self._inputs.follow({topic for topic, _ in partitions} if said is None else said):
                self._session.subscribe(self._inputs.plan.parts, rejoin=False)
                self._inputs.check_read(self._session.was_read)
            self._inputs.check()
            self._tasks.assign(partitions, self._assignor.standbys, self._session.committed)
        except BaseException:
            self.abandoned()
            raise

    @property
    def row_order(self) -> RowOrder:
        """How rows are handed out: those of a task by time, and as many as are worked on before it is time to look at
        the clock.
        """
        return RowOrder(
            lambda partition: self._pace(partition[0]).rows,
            self._inputs.task,
            self._settings.max_task_idle_ms,
            self._inputs.extraction,
            self._tasks.is_running,
        )

    def _pace(self, topic: str) -> Pace:
        return self._paces[self._inputs.part(topic).number]

    def abandoned(self) -> None:
        """Forget what was not committed, and close all tasks. Called by the session."""
        self._output.clear()
        self._rows, self._processed = 0, False
        self._tasks.close()

    def _new_task(self, part: SubTopology, index: int, stores: dict[str, StateStore]) -> Task:
        seen = self._globals.stores
        return Task(self._topology, part, index, stores, self._take_output, self._refusal, global_stores=seen)

    def _refusal(self, topic: str, rows: Any) -> ConfigError | None:
        """Return why a topic would not take one of these rows, or None."""
        known = self._output_topics
        return known.refusal(topic, rows, lambda: known.describe({topic}, self._client.deadline()))

    def _throw_away(self, error: DamagedStore) -> None:
        """Abort, delete the store that cannot be read, and begin again: it is restored from its changelog."""
        self._session.abort(f"a store is damaged: {error}")
        self.abandoned()
        self._tasks.close(standbys=True)
        delete(error)
        self._globals.throw_away(error)

    def close(self) -> None:
        """Abort what was not committed, close all tasks, and leave the group."""
        try:
            self._session.close()
        finally:
            self.abandoned()
            self._tasks.end()
            self._globals.close()
            self._client.close()


def _with_partition(changes: pa.Table, index: int) -> pa.Table:
    return changes.append_column("partition", pa.array(np.full(changes.num_rows, index, np.int32)))


def _polling_often(settings: Settings) -> Any:
    """Return settings with short polls: a fetch that waits for rows must not delay a commit that is due."""
    return replace(
        settings.client, fetch_max_wait_ms=min(settings.client.fetch_max_wait_ms, settings.commit_interval_ms)
    )
