"""A worker: the driver. It leads its group, checks the cluster, serves REST and keeps tasks running.

It stands alone: of two workers of one ``group.id`` the later one takes over, and the earlier one ends its tasks and
itself as soon as it learns of that, which is within :data:`LEADER_CHECK_S`. Records stay exactly once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from semel.config import ClientConfig
from semel.connect.config import WorkerConfig
from semel.connect.connector_config import ConnectorConfig
from semel.connect.herder import Herder
from semel.connect.leader import Leader
from semel.connect.lifecycle import Lifecycle
from semel.connect.rest.server import RestServer
from semel.connect.stores.config_format import connector_record
from semel.connect.stores.configs import ConfigStore
from semel.connect.stores.internal_topics import ensure_internal_topic
from semel.connect.stores.statuses import StatusStore
from semel.errors import ConfigError, Fenced, SemelError
from semel.runtime.launcher import Launcher
from semel.runtime.supervisor import Status, Supervisor
from semel.wire.api.offsets import live_members
from semel.wire.client import Client

__all__ = ["LEADER_CHECK_S", "Worker"]

log = logging.getLogger("semel.connect")

#: How often an idle worker proves that it leads.
LEADER_CHECK_S = 5.0


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
        if not connectors and self.config.config_topic is None and not self.config.listeners:
            raise ConfigError(
                "there are no connectors, and no listeners for REST to create one. Nothing was started. Give files of"
                " connectors, or config.storage.topic and status.storage.topic.",
                tag="NO_CONNECTORS",
            )
        self._client = Client(ClientConfig.parse(self.config.client))
        self._leader = Leader(self._client, self.config.group_id)
        store = ConfigStore(self._client, self._leader, self.config.config_topic)
        self._store, self.statuses = store, StatusStore(self._client, self.config.status_topic)
        self._lifecycle = Lifecycle(self.config, self._properties, store, self.statuses, self._leader)
        self.herder = Herder(self._client, self.config, store, self.statuses, self._lifecycle)
        self._rest = RestServer(self.config, self.herder)
        self._supervisor: Supervisor | None = None
        self._ending = threading.Event()

    @property
    def addresses(self) -> list[str]:
        """Where REST listens."""
        return self._rest.addresses

    def prepare(self) -> None:
        """Listen, have the topics, and lead the group.

        Raises :class:`ConfigError` for topics that will not do, a port that is taken, and Kafka's own Connect in the
        group.
        """
        config, client = self.config, self._client
        client.versions()
        self._rest.listen()
        self._check_group()
        ensure_internal_topic(
            client,
            "offset.storage.topic",
            config.offsets_topic,
            config.offsets_partitions,
            config.offsets_replication,
        )
        if config.config_topic is not None and config.status_topic is not None:
            ensure_internal_topic(
                client, "config.storage.topic", config.config_topic, 1, config.config_replication, single=True
            )
            ensure_internal_topic(
                client,
                "status.storage.topic",
                config.status_topic,
                config.status_partitions,
                config.status_replication,
            )
        self._leader.take_over()
        self._store.read()
        self.statuses.open()

    def start(
        self,
        launcher: Launcher,
        on_change: Callable[[Status], None] = lambda _: None,
        on_message: Callable[[str, Mapping[str, Any]], None] = lambda _name, _message: None,
    ) -> None:
        """Start all tasks, and serve REST. What becomes of tasks is told as :class:`Supervisor` tells it."""

        def changed(status: Status) -> None:
            self._lifecycle.changed(status)
            on_change(status)

        def heard(name: str, message: Mapping[str, Any]) -> None:
            self._lifecycle.heard(name, message)
            self.herder.throughput.heard(name, message)
            on_message(name, message)

        self._supervisor = Supervisor(launcher, on_change=changed, on_message=heard, on_ask=self._lifecycle.asked)
        self._lifecycle.processes = self._supervisor
        given = [one for one in self._given if self._store.now.connectors.get(one["name"].strip()) != one]
        if given:  # files act as PUT does
            self._store.write([connector_record(one["name"].strip(), one) for one in given])
        for name in self._store.now.connectors:
            self._lifecycle.wake(name)
        self._rest.serve()
        threading.Thread(target=self._prove, name="semel-connect-leader", daemon=True).start()

    @property
    def running(self) -> bool:
        """Whether this worker leads, Spark runs, and there is something to do: REST, or a task that has not failed."""
        if self._supervisor is None or self._supervisor.spark_gone.is_set() or self._leader.lost.is_set():
            return False
        if self.config.listeners:
            return True
        shown = [self.statuses.shown(name) for name in self.herder.names]
        states = [one["state"] for found in shown if found for one in (found["tasks"] or [found["connector"]])]
        return not states or any(state != "FAILED" for state in states)

    @property
    def fenced(self) -> bool:
        """Whether another worker of this group has taken over."""
        return self._leader.lost.is_set()

    def stop(self) -> None:
        """Let all tasks end. One that does not in time is ended and fenced: what it left open would hold readers up."""
        self._ending.set()
        self._rest.close()
        if self._supervisor is not None:
            self._lifecycle.close()
            self._supervisor.close()
        self.statuses.close()
        with suppress(SemelError):
            self._leader.close()
        self._client.close()

    def _prove(self) -> None:
        while not self._ending.wait(LEADER_CHECK_S):
            try:
                self._leader.check()
            except Fenced as error:
                log.error("%s", error)  # noqa: TRY400  its message says all
                return
            except SemelError as error:
                log.warning("whether this worker leads is not known now: %s", error)

    def _check_group(self) -> None:
        members = live_members(self._client, self.config.group_id, self._client.deadline())
        if members:
            raise ConfigError(
                f"group {self.config.group_id!r} has live members ({', '.join(members[:3])}): Kafka's own Connect is at"
                " work, or another consumer. Nothing was started. Stop it, or give another group.id.",
                tag="GROUP_IN_USE",
            )
