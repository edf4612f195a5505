"""A worker: the driver. It checks the cluster and the connectors' properties, and keeps their tasks running.

It stands alone: its connectors come from files, and only one worker of a ``group.id`` may run. Of two, the later one
fences the tasks of the earlier, whose tasks then fail: records stay exactly once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from semel.config import ClientConfig
from semel.connect.config import ConnectorConfig, WorkerConfig, ask_connector
from semel.connect.stores.offsets import ensure_offsets_topic
from semel.connect.tasks.loop import transactional_id
from semel.errors import ConfigError, SemelError, Unsupported
from semel.runtime.launcher import Launcher
from semel.runtime.supervisor import State, Status, Supervisor
from semel.transaction.producer import Producer
from semel.wire.client import Client

__all__ = ["Worker"]

log = logging.getLogger("semel.connect")

_ENTRY = "semel.connect.tasks.loop:run"


class Worker:
    """Runs connectors. Creating it checks their properties, and opens no connection.

    Raises what :meth:`WorkerConfig.parse` and :meth:`ConnectorConfig.parse` raise.
    """

    def __init__(self, properties: Mapping[str, str], connectors: Sequence[Mapping[str, str]]) -> None:
        self.config = WorkerConfig.parse(properties)
        self._properties = dict(properties)
        self._given = [dict(given) for given in connectors]
        self.connectors = [ConnectorConfig.parse(given, self.config) for given in connectors]
        names = [one.name for one in self.connectors]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(
                f"two connectors are named {twice[0]!r}, and would share offsets. Nothing was started. Give each a name"
                " of its own.",
                tag="SAME_NAME",
            )
        self._tasks = [_single_task(one) for one in self.connectors]
        self._supervisor: Supervisor | None = None

    def prepare(self) -> None:
        """Have the offsets topic. Raises :class:`ConfigError` for one that will not do."""
        with Client(ClientConfig.parse(self.config.client)) as client:
            client.versions()
            ensure_offsets_topic(
                client,
                self.config.offsets_topic,
                self.config.offsets_partitions,
                self.config.offsets_replication,
            )

    def start(
        self,
        launcher: Launcher,
        on_change: Callable[[Status], None],
        on_message: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        """Start all tasks. What becomes of them is told as :class:`Supervisor` tells it."""
        self._supervisor = Supervisor(launcher, on_change=on_change, on_message=on_message)
        for given, config, task in zip(self._given, self.connectors, self._tasks, strict=True):
            settings = {"worker": self._properties, "connector": given, "task": 0, "config": task}
            self._supervisor.start(f"{config.name}-0", _ENTRY, settings)

    @property
    def running(self) -> bool:
        """Whether Spark runs, and any task has not failed."""
        if self._supervisor is None or self._supervisor.spark_gone.is_set():
            return False
        return any(status.state is not State.FAILED for status in self._supervisor.statuses)

    def stop(self) -> None:
        """Let all tasks end. One that does not in time is ended and fenced: what it left open would hold readers up."""
        if self._supervisor is None:
            return
        left = set(self._supervisor.stop(self.config.graceful_timeout_ms / 1000))
        self._supervisor.close()
        if left and self.config.exactly_once:
            with Client(ClientConfig.parse(self.config.producer)) as client:
                for config in self.connectors:
                    if f"{config.name}-0" in left:
                        self._fence(client, config.name)

    def _fence(self, client: Client, connector: str) -> None:
        name = transactional_id(self.config.group_id, connector, 0)
        try:
            with Producer(client, name, scope="connect", may_have_lost_progress=True) as owner:
                owner.take_over()
        except SemelError as error:
            log.warning("%s was not fenced; what it left open ends after its transaction timeout: %s", name, error)


def _single_task(config: ConnectorConfig) -> Mapping[str, Any]:
    """The configuration of the one task. Several need fencing by generation, which is not there yet."""
    tasks = ask_connector(config.name, "tasks", lambda: list(config.connector.tasks(config.own, config.max_tasks)))
    if len(tasks) > 1:
        raise Unsupported(
            f"connector {config.name!r} has {len(tasks)} tasks, and more than one task is not there yet. Nothing was"
            " started. Set tasks.max=1, or split its source over several connectors.",
            tag="NOT_YET",
        )
    if not tasks:
        raise ConfigError(
            f"connector {config.name!r} has no tasks: it has nothing to read. Nothing was started. Correct its"
            " properties.",
            tag="NO_TASKS",
        )
    return tasks[0]
