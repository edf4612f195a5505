"""The tasks of a worker: opened with their stores, restored beside the ones that run, and closed.

A task whose stores are at the end of their changelogs runs at once. Another one waits while a thread reads what is
missing, and its input is not read meanwhile. A standby task is a copy of the stores of another worker's task.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from semel.errors import ConfigError
from semel.steps import StreamsStep, reached
from semel.streams.metrics import WorkerCounts
from semel.streams.settings import Settings
from semel.streams.state.backend import DamagedStore
from semel.streams.state.changelog import Restore, restores
from semel.streams.state.folders import delete, opened, store_folder, task_ids
from semel.streams.state.state_store import StateStore, StoreSpec
from semel.streams.state.state_updater import StateUpdater
from semel.streams.topology.node import SubTopology
from semel.streams.topology.topology import Topology
from semel.streams.worker.inputs import WorkerInputs
from semel.streams.worker.task import Task
from semel.streams.worker.task_assignor import Claims
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["TaskManager"]

log = logging.getLogger("semel.streams")

#: How often it looks for folders of tasks that are away.
_CLEAN_S = 60.0

Stores = dict[str, StateStore]
#: The number of the sub-topology, and the partition.
TaskId = tuple[int, int]


class TaskManager:
    """One thread uses it, and :meth:`claims` also the member's while that one polls. ``make`` returns a task with
    these stores.
    """

    def __init__(
        self,
        client: Client,
        topology: Topology,
        settings: Settings,
        inputs: WorkerInputs,
        counts: WorkerCounts,
        make: Callable[[SubTopology, int, Stores], Task],
    ) -> None:
        self._client, self._topology, self._settings, self._make = client, topology, settings, make
        self._inputs, self._counts = inputs, counts
        self._parts = {part.number: part for part in inputs.plan.all_parts}
        self._tasks: dict[TopicPartition, Task] = {}
        #: By the id of the task: the changelogs that are not at their end.
        self._restoring: dict[str, set[TopicPartition]] = {}
        #: The stores of standby tasks, by the number of the sub-topology and the partition.
        self._standbys: dict[TaskId, Stores] = {}
        #: The offsets that the stores of tasks have reached, when they were closed.
        self._folders = self._look_into_folders()
        #: Since when tasks with a folder are away, by the clock.
        self._away: dict[TaskId, float] = {}
        self._clean_at = 0.0
        self._assigned = False
        self._began, self._records, self._stores = 0.0, 0, 0
        self._updater = StateUpdater(settings.client, self._restored)
        counts.restores = self._remaining

    # ---- which there are

    def of(self, topic: str, index: int) -> Task:
        """Return the task that reads a partition."""
        return self._tasks[topic, index]

    @property
    def all(self) -> list[Task]:
        """The tasks that it has, those that restore among them."""
        return list({task.id: task for task in list(self._tasks.values())}.values())

    @property
    def running(self) -> list[Task]:
        """The tasks whose state is there."""
        return [task for task in self.all if task.id not in self._restoring]

    def is_running(self, task_id: object) -> bool:
        """Return True if the state of a task is there."""
        return task_id not in self._restoring

    @property
    def idle(self) -> bool:
        """True if all tasks restore."""
        return bool(self._restoring) and not self.running

    def claims(self) -> Claims:
        """Return what this worker says to the assignor."""
        lags: dict[TaskId, int] = {}
        offsets = dict(self._folders)
        for task, copies in self._by_task(self._updater.open).items():
            if all(one.lag is not None for one in copies):
                lags[task] = sum(one.lag or 0 for one in copies)
                offsets[task] = sum(one.position for one in copies)
        running = self.running
        offsets |= {_id(task): _reached(task.stores) for task in running if task.stores}
        return Claims([_id(task) for task in running], sorted(self._folders), lags, offsets)

    def _look_into_folders(self) -> dict[TaskId, int]:
        """Return the offsets that the stores in the folders of tasks have reached. What cannot be read has none."""
        folder = self._settings.state_dir / self._topology.application_id
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        found: dict[TaskId, int] = {}
        for part, index in task_ids(names):
            if part in self._parts:
                found[part, index] = 0
                if not self._settings.num_standby_replicas:
                    continue
                with suppress(DamagedStore, ConfigError):  # who opens it for good says what is wrong
                    stores = self._open_stores(self._parts[part], index)
                    found[part, index] = _reached(stores)
                    _close(stores)
        return found

    def _by_task(self, found: Collection[Restore]) -> dict[TaskId, list[Restore]]:
        parts = {
            self._topology.changelog(spec.name): part.number for part in self._parts.values() for spec in part.stores
        }
        by_task: dict[TaskId, list[Restore]] = {}
        for one in found:
            by_task.setdefault((parts[one.partition[0]], one.partition[1]), []).append(one)
        return by_task

    # ---- an assignment

    def assign(
        self,
        partitions: Collection[TopicPartition],
        standbys: Collection[TaskId],
        committed: Mapping[TopicPartition, int],
    ) -> None:
        """Open the tasks of these partitions, and these standby tasks. If a store is damaged, delete it and open all of
        them again. ``committed`` are the group's offsets.
        """
        try:
            self._open(partitions, standbys, committed)
        except DamagedStore as error:
            self.close(standbys=True)
            delete(error)
            self._open(partitions, standbys, committed)

    def _open(
        self,
        partitions: Collection[TopicPartition],
        standbys: Collection[TaskId],
        committed: Mapping[TopicPartition, int],
    ) -> None:
        self._close_standbys(self._standbys.keys() - set(standbys))
        opened_tasks: dict[str, Task] = {}
        for topic, index in sorted(partitions):
            part = self._inputs.part(topic)
            name = f"{part.number}_{index}"
            if name not in opened_tasks:
                opened_tasks[name] = self._make(part, index, self._open_stores(part, index))
            self._tasks[topic, index] = opened_tasks[name]
        reached(StreamsStep.OPENED, self._topology.application_id)
        self._counts.created += len(opened_tasks)
        begun = {self._tasks[partition].id for partition, at in committed.items() if at}
        stores = {
            (self._topology.changelog(name), task.partition): (task.id, store)
            for task in self.all
            for name, store in task.stores.items()
        }
        missing = restores(
            self._client,
            {partition: store for partition, (_, store) in stores.items()},
            {partition for partition, (task, _) in stores.items() if task in begun},
        )
        for one in missing:
            self._restoring.setdefault(stores[one.partition][0], set()).add(one.partition)
        self._began, self._records, self._stores = time.monotonic(), 0, len(missing)
        if missing:
            log.info("%d of %d tasks restore their state", len(self._restoring), len(opened_tasks))
        self._updater.add([*missing, *self._new_standbys(standbys)])
        for task in self.running:
            task.start()
        self._assigned = True
        if not missing:
            reached(StreamsStep.RESTORED, "0")

    def _new_standbys(self, standbys: Collection[TaskId]) -> list[Restore]:
        """Open the stores of standby tasks that are not open."""
        new = sorted(set(standbys) - self._standbys.keys())
        for part, index in new:
            self._standbys[part, index] = self._open_stores(self._parts[part], index)
        stores = {
            (self._topology.changelog(name), index): store
            for part, index in new
            for name, store in self._standbys[part, index].items()
        }
        return restores(self._client, stores, follow=True)

    def _open_stores(self, part: SubTopology, index: int) -> Stores:
        stores: Stores = {}
        try:
            for spec in part.stores:
                stores[spec.name] = self._open_store(spec, part, index)
        except BaseException:
            _close(stores)
            raise
        return stores

    def _open_store(self, spec: StoreSpec, part: SubTopology, index: int) -> StateStore:
        folder = store_folder(self._settings, self._topology.application_id, f"{part.number}_{index}", spec.name)
        try:
            return opened(spec, folder)
        except DamagedStore as error:
            delete(error)
        return opened(spec, folder)

    # ---- restoring

    def take_restored(self) -> None:
        """Start the tasks whose state has come. Raises what :meth:`StateUpdater.finished` raises."""
        for one in self._updater.finished():
            self._records += one.count
            for task, left in list(self._restoring.items()):
                left.discard(one.partition)
                if not left:
                    self._start(task)

    def _start(self, name: str) -> None:
        next(task for task in self.all if task.id == name).start()
        del self._restoring[name]
        log.info("task %s has its state, %.1f s after it was assigned", name, time.monotonic() - self._began)
        if not self._restoring:
            took = time.monotonic() - self._began
            log.info("restored %d records into %d stores in %.1f s", self._records, self._stores, took)
            reached(StreamsStep.RESTORED, str(self._records))

    def wait(self, timeout: float) -> None:
        """Wait for :meth:`take_restored`."""
        self._updater.wait(timeout)

    def _restored(self, one: Restore, records: int) -> None:
        """Count records. Called in the thread that restores."""
        if one.follows:
            self._counts.updated += records
        else:
            self._counts.restored += records

    def _remaining(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return how many offsets the tasks that restore lack, and how many standby tasks."""
        restoring: dict[str, int] = {}
        standby: dict[str, int] = {}
        for (part, index), found in self._by_task(self._updater.open).items():
            (standby if found[0].follows else restoring)[f"{part}_{index}"] = sum(one.lag or 0 for one in found)
        return restoring, standby

    # ---- the end

    def clean(self) -> None:
        """Delete the folders of tasks that have been away for ``state.cleanup.delay.ms``."""
        now, delay = time.monotonic(), self._settings.state_cleanup_delay_ms / 1000
        if now < self._clean_at or not self._assigned:
            return
        self._clean_at = now + min(max(delay, 1.0), _CLEAN_S)
        here = {_id(task) for task in self.all} | self._standbys.keys()
        self._away = {task: self._away.get(task, now) for task in self._folders.keys() - here}
        for task in [one for one, since in self._away.items() if now - since >= delay]:
            part, index = task
            try:
                _close(self._open_stores(self._parts[part], index))
            except ConfigError:  # another worker has it open: they share a state.dir
                continue
            name = f"{part}_{index}"
            log.info("the folder of task %s is deleted: the task has moved away", name)
            shutil.rmtree(self._settings.state_dir / self._topology.application_id / name)
            del self._folders[task]

    def close(self, *, standbys: bool = False) -> None:
        """Close the tasks, and also ``standbys``. What was restored stays in the folders."""
        self._updater.remove({partition for left in self._restoring.values() for partition in left})
        tasks, self._tasks, self._assigned = self.all, {}, False
        self._restoring.clear()
        self._counts.closed += len(tasks)
        for task in tasks:
            self._folders[_id(task)] = _reached(task.stores)
            task.close()
        if standbys:
            self._close_standbys(list(self._standbys))

    def _close_standbys(self, tasks: Collection[TaskId]) -> None:
        closing = {task: self._standbys.pop(task) for task in tasks}
        self._updater.remove(
            {(self._topology.changelog(name), task[1]) for task, stores in closing.items() for name in stores}
        )
        for task, stores in closing.items():
            self._folders[task] = _reached(stores)
            _close(stores)

    def end(self) -> None:
        """Close everything."""
        self._counts.restores = lambda: ({}, {})
        try:
            self.close(standbys=True)
        finally:
            self._updater.close()


def _id(task: Task) -> TaskId:
    (found,) = task_ids([task.id])
    return found


def _reached(stores: Mapping[str, StateStore]) -> int:
    """Return how far stores are, in offsets of their changelogs. What cannot be read is at none."""
    with suppress(DamagedStore):
        positions = [store.position for store in stores.values()]
        return sum(at.offset for at in positions if at is not None)
    return 0


def _close(stores: Mapping[str, StateStore]) -> None:
    for store in stores.values():
        store.close()
