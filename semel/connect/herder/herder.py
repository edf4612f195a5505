"""The operations on connectors. The herder decides, stores the decision, and wakes the thread that applies it.

It opens no sockets and starts no threads. What it refuses has Kafka Connect's words first; REST finds the status by the
error's tag.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from semel.config import ClientConfig
from semel.connect.api import Offset, Partition
from semel.connect.herder.connector_calls import ask_connector, within
from semel.connect.herder.fencing import fence_predecessors
from semel.connect.herder.lifecycle import Lifecycle
from semel.connect.herder.sink_offsets import alter_sink_offsets, sink_offsets
from semel.connect.herder.throughput import TaskCounts, Throughput
from semel.connect.plugins import kind_of
from semel.connect.settings.connector_config import ConnectorConfig, ConnectorConfigParser
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.stores.config_format import (
    STARTED,
    STOPPED,
    commit_record,
    connector_record,
    target_record,
)
from semel.connect.stores.configs import ConfigStore
from semel.connect.stores.own_offsets import Committed, Offsets, OwnOffsets, ensure_offsets_topic, opened_offsets
from semel.connect.stores.statuses import StatusStore, TaskState
from semel.errors import ConfigError
from semel.serdes.connect_offsets import canonical
from semel.steps import HerderStep, reached
from semel.transaction.connect_tasks import task_id
from semel.transaction.producer import Producer
from semel.wire.client import Client

__all__ = ["Herder", "Put"]

_UNCHANGED = "Nothing was changed."


class Put(NamedTuple):
    """A connector that was written down: whether it is new, and its info before anything has come of that."""

    new: bool
    info: dict[str, Any]


class Herder:
    """The connectors of a worker. Any thread may use it."""

    def __init__(
        self, client: Client, config: WorkerConfig, store: ConfigStore, statuses: StatusStore, lifecycle: Lifecycle
    ) -> None:
        self._client, self.config, self._store = client, config, store
        self.statuses, self._lifecycle = statuses, lifecycle
        self.throughput = Throughput()

    # ---- asking

    @property
    def names(self) -> list[str]:
        """The names of all connectors."""
        return list(self._store.now.connectors)

    def info(self, name: str) -> dict[str, Any]:
        """Return a connector with its configuration and its tasks."""
        config = self._config_of(name)
        tasks = [{"connector": name, "task": task} for task in range(len(self._store.now.tasks.get(name, ())))]
        return {"name": name, "config": config, "tasks": tasks, "type": self._kind(name)}

    def _kind(self, name: str) -> str:
        """Return whether it is a source or a sink."""
        return kind_of(self._store.now.connectors.get(name, {}).get("connector.class", "").strip())

    def tasks(self, name: str) -> list[dict[str, Any]]:
        """Return the tasks of a connector with their configurations."""
        self._config_of(name)
        found = self._store.now.tasks.get(name, ())
        return [{"id": {"connector": name, "task": task}, "config": config} for task, config in enumerate(found)]

    def status(self, name: str) -> dict[str, Any]:
        """Return the state of a connector and of its tasks."""
        there = name in self._store.now.connectors
        found = self.statuses.shown(name, self._unassigned(name), self._kind(name)) if there else None
        if found is None:
            raise _unknown(f"No status found for connector {name}.")
        return found

    def task_status(self, name: str, task: int) -> dict[str, Any]:
        """Return the state of one task."""
        found = {**self._unassigned(name), **self.statuses.tasks.get(name, {})}.get(task)
        if found is None:
            raise _unknown(f"No status found for task {name}-{task}.")
        return {"id": task, **found.shown()}

    def _unassigned(self, name: str) -> dict[int, TaskState]:
        """Return the state of each stored task before this leader has started it."""
        state = TaskState("UNASSIGNED", self.config.rest.advertised)
        return dict.fromkeys(range(len(self._store.now.tasks.get(name, ()))), state)

    def measured(self) -> dict[str, dict[int, dict[str, float]]]:
        """Return the records of each task, in total and per second, by connector and task."""
        return self.throughput.shown(self._store.now.connectors)

    @property
    def counts(self) -> dict[str, dict[int, TaskCounts]]:
        """The newest report of each task, by connector."""
        return self.throughput.counts(self._store.now.connectors)

    @property
    def states(self) -> dict[str, dict[int, str]]:
        """The state of each task, by connector."""
        return {
            name: {
                task: state.state
                for task, state in {**self._unassigned(name), **self.statuses.tasks.get(name, {})}.items()
            }
            for name in self.names
        }

    # ---- changing

    def put(self, name: str, config: Mapping[str, str], *, target: str = STARTED, create: bool = False) -> Put:
        """Create a connector, or give it another configuration.

        Raises :class:`ConfigError` with every problem of the configuration, or where it is there and shall not be.
        """
        given = self._checked(name, config)
        with self._store.lock:
            return self._put(name, given, target, create=create)

    def patch(self, name: str, changes: Mapping[str, str | None]) -> Put:
        """Change some properties; None removes one."""
        while True:
            before = self._config_of(name)
            changed = {**before, **changes}
            given = self._checked(name, {key: value for key, value in changed.items() if value is not None})
            with self._store.lock:
                if self._config_of(name) == before:  # the connector's own code was asked, which may take its time
                    return self._put(name, given)

    def _checked(self, name: str, properties: Mapping[str, str]) -> dict[str, str]:
        given, config = {**properties, "name": name}, self.config
        problems = within(config.connector_timeout_ms, name, lambda: ConnectorConfigParser(given, config).problems)
        if problems:
            lines = "\n".join(problem.text for problem in problems)
            raise ConfigError(
                "Connector configuration is invalid and contains the following"
                f" {len(problems)} error(s):\n{lines}\nYou can also find the above list of errors at the endpoint"
                " `/connector-plugins/{connectorType}/config/validate`",
                tag="CONNECTOR_INVALID",
            )
        return given

    def _put(self, name: str, given: Mapping[str, str], target: str = STARTED, *, create: bool = False) -> Put:
        new = name not in self._store.now.connectors
        if create and not new:
            raise ConfigError(
                f"Connector {name} already exists. {_UNCHANGED} PUT /connectors/{name}/config changes it.",
                tag="CONNECTOR_EXISTS",
            )
        records = [connector_record(name, given)]
        if new and target != STARTED:  # before the connector, so that it is never read as started
            records.insert(0, target_record(name, target))
        self._store.write(records)
        reached(HerderStep.CONFIG_WRITTEN, name)
        made = Put(new, self.info(name))
        self._lifecycle.wake(name)
        return made

    def delete(self, name: str) -> None:
        """Delete a connector. Its offsets stay."""
        with self._store.lock:
            self._config_of(name)
            self._store.write([connector_record(name, None), target_record(name, None)])
        self._lifecycle.wake(name)

    def set_target(self, name: str, target: str) -> None:
        """Have a connector started, paused or stopped. A stopped one has no tasks."""
        with self._store.lock:
            if name not in self._store.now.connectors:
                raise _unknown(f"Unknown connector {name}.")
            records = [target_record(name, target)]
            if target == STOPPED:
                records.insert(0, commit_record(name, 0))
            if target != self._store.now.targets.get(name):
                self._store.write(records)
            else:
                self._store.check_leader()  # the next one may know another target
        self._lifecycle.wake(name)

    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> dict[str, Any]:
        """Start a connector again, and its tasks. Returns its status, with what is about to be started."""
        shown = self._shown_for_restart(name)
        states = {task["id"]: task["state"] for task in shown["tasks"]}
        tasks = [task for task, state in states.items() if include_tasks and (state == "FAILED" or not only_failed)]
        connector = shown["connector"]["state"] == "FAILED" or not only_failed
        worker = self.config.rest.advertised
        if self._store.now.targets.get(name) == STARTED:
            for task in tasks:
                self.statuses.put_task(name, task, TaskState("RESTARTING", worker))
            if connector and only_failed | include_tasks:
                self.statuses.put_connector(name, TaskState("RESTARTING", worker))
        answer = self.statuses.shown(name, self._unassigned(name), self._kind(name)) or shown
        self._lifecycle.wake(name, tasks=tasks)
        if connector:
            self._lifecycle.wake(name, again=True)
        return answer

    def restart_task(self, name: str, task: int) -> None:
        """Start one task again."""
        self._shown_for_restart(name)
        if task >= len(self._store.now.tasks.get(name, ())):
            raise _unknown(f"Unknown task: {name}-{task}.")
        self._lifecycle.wake(name, tasks=[task])

    def _shown_for_restart(self, name: str) -> dict[str, Any]:
        if name not in self._store.now.connectors:
            raise _unknown(f"Unknown connector: {name}.")
        return self.status(name)

    def reset_topics(self, name: str) -> None:
        """Forget which topics a connector has written to."""
        self.statuses.reset_topics(name)

    # ---- offsets

    def offsets(self, name: str) -> list[dict[str, Any]]:
        """Return the committed offsets of a connector."""
        config = self._parsed(self._config_of(name))
        if config.sink is not None:
            return sink_offsets(config, config.sink)
        with self._opened(config) as (_, found):
            return [{"partition": partition, "offset": offset} for partition, offset in found]

    def alter_offsets(self, name: str, offsets: Sequence[tuple[Partition | None, Offset]] | None) -> bool:
        """Set offsets of a stopped connector; None for all of them removes what it has. Returns what its class says.

        Raises :class:`ConfigError` unless the connector is stopped, and for what its class refuses.
        """
        raw = self._config_of(name)
        self._check_stopped(name)
        config = self._parsed(raw)
        with self._lifecycle.quiet(name):
            self._check_stopped(name)  # it may have been resumed while this waited
            if config.sink is not None:
                return alter_sink_offsets(config, config.sink, offsets, self.config.connector_timeout_ms)
            tasks = len(self._store.now.tasks.get(name, ()))
            fence_predecessors(self.config, self._store, config, tasks, before="modifying offsets")
            with self._opened(config) as (client, found):
                wanted = [(partition or {}, offset) for partition, offset in offsets or ()]
                wanted = [(partition, None) for partition, _ in found] if offsets is None else wanted
                alone = within(self.config.connector_timeout_ms, name, lambda: _alter_offsets(config, wanted))
                if wanted:
                    changed = {canonical(partition): (partition, offset) for partition, offset in wanted}
                    self._write_offsets(client, config, found, changed)
        return alone

    def _check_stopped(self, name: str) -> None:
        if self._store.now.targets.get(name) != STOPPED or self._store.now.tasks.get(name):
            raise ConfigError(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the"
                f" specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint.",
                tag="NOT_STOPPED",
            )

    def _parsed(self, raw: Mapping[str, str]) -> ConnectorConfig:
        config = self.config
        return within(config.connector_timeout_ms, raw["name"], lambda: ConnectorConfig.parse(raw, config))

    @contextmanager
    def _opened(self, config: ConnectorConfig) -> Iterator[tuple[Client, Offsets]]:
        """Yield the connector's client and its current offsets."""
        ensure_offsets_topic(self.config, config)
        with (
            Client(ClientConfig.parse(config.clients.producer)) as client,
            opened_offsets(client, self.config, config) as found,
        ):
            found.read()
            yield client, found

    def _write_offsets(self, client: Client, config: ConnectorConfig, store: Offsets, offsets: Committed) -> None:
        self._store.check_leader()  # one that was frozen does not know that the next one has resumed the connector
        if isinstance(store, OwnOffsets):
            store.write_removals(offsets)
        rows = store.rows(offsets)
        if self.config.exactly_once:
            owner_id = task_id(self.config.group_id, config.name, 0)
            with Producer(client, owner_id, scope="connect", may_have_lost_progress=True) as owner:
                owner.take_over({store.topic})
                self._store.check_leader()  # no other leader has started tasks since: they would be fenced now
                with owner.transaction() as txn:
                    txn.send(store.topic, rows)
        else:
            store.append(rows)
        store.committed(offsets)

    def _config_of(self, name: str) -> dict[str, str]:
        found = self._store.now.connectors.get(name)
        if found is None:
            raise _unknown(f"Connector {name} not found.")
        return dict(found)


def _alter_offsets(config: ConnectorConfig, offsets: Sequence[tuple[Partition, Offset]]) -> bool:
    def ask() -> bool:
        try:
            return config.source.alter_offsets(config.own, offsets)
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                f"connector {config.name} refused these offsets: {type(error).__name__}: {error}. Its stored offsets"
                f" were not changed. Correct them: GET /connectors/{config.name}/offsets shows their form.",
                tag="OFFSET_REFUSED",
            ) from error

    return ask_connector(config.name, "alter_offsets", ask)


def _unknown(text: str) -> ConfigError:
    return ConfigError(f"{text} {_UNCHANGED} GET /connectors lists those that are there.", tag="CONNECTOR_UNKNOWN")
