"""One term of a worker as the leader of its group: all that only a leader has.

It ends where another worker has taken the leader's id over. What it had read is of no use then, so the next term begins
with a new one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from semel.connect.herder.herder import Herder
from semel.connect.herder.lifecycle import Lifecycle
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.stores.config_format import connector_record
from semel.connect.stores.configs import ConfigStore
from semel.connect.stores.statuses import StatusStore
from semel.connect.worker.leader import Leader, Membership
from semel.errors import SemelError
from semel.processes.launcher import Launcher
from semel.processes.supervisor import Status, Supervisor
from semel.wire.client import Client

__all__ = ["Term"]


class Term:
    """Leads, and runs all connectors once it is started."""

    def __init__(
        self, client: Client, config: WorkerConfig, properties: Mapping[str, str], membership: Membership
    ) -> None:
        self._config = config
        self.leader = Leader(client, config.group_id, membership)
        self.store = ConfigStore(client, self.leader, config.config_topic)
        self.statuses = StatusStore(client, config.status_topic)
        self._lifecycle = Lifecycle(config, properties, self.store, self.statuses)
        self.herder = Herder(client, config, self.store, self.statuses, self._lifecycle)
        self._supervisor: Supervisor | None = None
        self._closing = threading.Lock()
        self._closed = False

    def take_over(self) -> None:
        """Lead, and read what is stored. Raises what :meth:`Leader.take_over` and :meth:`ConfigStore.read` raise."""
        self.leader.take_over()
        self.store.read()
        self.statuses.open()

    def start(
        self,
        launcher: Launcher,
        given: Sequence[Mapping[str, str]],
        on_change: Callable[[Status], None],
        on_message: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        """Start all tasks, those of the ``given`` connectors too: files act as PUT does."""

        def changed(status: Status) -> None:
            self._lifecycle.reports.changed(status)
            on_change(status)

        def heard(name: str, message: Mapping[str, Any]) -> None:
            self._lifecycle.reports.heard(name, message)
            self.herder.throughput.heard(name, message)
            on_message(name, message)

        supervisor = Supervisor(launcher, on_change=changed, on_message=heard, on_ask=self._lifecycle.reports.asked)
        self._lifecycle.processes = supervisor
        self._supervisor = supervisor
        new = [one for one in given if self.store.now.connectors.get(one["name"].strip()) != one]
        if new:
            self.store.write([connector_record(one["name"].strip(), one) for one in new])
        for name in self.store.now.connectors:
            self._lifecycle.wake(name)

    @property
    def started(self) -> bool:
        """True if its tasks have been started."""
        return self._supervisor is not None

    @property
    def lost(self) -> bool:
        """True if another worker has taken over."""
        return self.leader.lost.is_set()

    @property
    def spark_gone(self) -> bool:
        """True if Spark has ended."""
        return self._supervisor is not None and self._supervisor.spark_gone.is_set()

    @property
    def all_failed(self) -> bool:
        """True if there are tasks, and each has failed for good."""
        shown = [self.statuses.shown(name) for name in self.herder.names]
        states = [one["state"] for found in shown if found for one in (found["tasks"] or [found["connector"]])]
        return bool(states) and all(state == "FAILED" for state in states)

    def close(self) -> None:
        """Let all tasks end. One that does not in time is ended and fenced: what it left open would hold readers up."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            if self._supervisor is not None:
                self._lifecycle.close()
                self._supervisor.close()
            self.statuses.close()
            with suppress(SemelError):
                self.leader.close()
