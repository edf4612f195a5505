"""A worker: the driver. The one that leads its group keeps tasks running; all others stand by, and hand requests on.

A worker that stands by leads at once when the leader leaves the group, and ``session.timeout.ms`` after it has died. A
leader that finds that another one has taken over ends its tasks and stands by. Records stay exactly once in either
case: who leads is fenced by a transactional id, and so is each task.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from semel.config import ClientConfig
from semel.connect.herder.connector_calls import within
from semel.connect.herder.herder import Herder
from semel.connect.herder.throughput import TaskCounts
from semel.connect.rest.app import rest_app
from semel.connect.rest.forwarding import ask_leader
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.stores.internal_topics import ensure_internal_topic
from semel.connect.stores.statuses import StatusStore
from semel.connect.worker.group import WorkerGroup
from semel.connect.worker.term import Term
from semel.errors import AbortAndRetry, ConfigError, Fenced, Retriable, SemelError
from semel.processes.launcher import Launcher
from semel.processes.supervisor import Status
from semel.web.server import Server
from semel.wire.client import Client
from semel.wire.security import server_context

__all__ = ["LEADER_CHECK_S", "Worker"]

log = logging.getLogger("semel.connect")

#: How often an idle leader proves that it leads.
LEADER_CHECK_S = 5.0
_WATCH_S = 0.2
#: How long a leader that was fenced, or could not begin, waits before it may lead again: another one is to come first.
_AGAIN_S = 5.0
#: How long the leader may take until it answers: its Spark starts.
_LEADER_BEGINS_S = 90.0
_CONFLICT = 409


class Worker:
    """Runs connectors. Creating it checks their properties, and opens no connection.

    Raises what :meth:`WorkerConfig.parse` and :meth:`ConnectorConfig.parse` raise.
    """

    def __init__(self, properties: Mapping[str, str], connectors: Sequence[Mapping[str, str]]) -> None:
        self.config = WorkerConfig.parse(properties)
        self._properties = dict(properties)
        self._given = [dict(given) for given in connectors]
        self.connectors = [self._parsed(given) for given in connectors]
        names = [one.name for one in self.connectors]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(
                f"two connectors are named {twice[0]!r}, and would share offsets. Nothing was started. Give each a name"
                " of its own.",
                tag="WRONG_VALUE",
            )
        if not connectors and self.config.config_topic is None and not self.config.rest.listeners:
            raise ConfigError(
                "there are no connectors, and no listeners for REST to create one. Nothing was started. Give files of"
                " connectors, or config.storage.topic and status.storage.topic.",
                tag="NO_CONNECTORS",
            )
        client_config = ClientConfig.parse(self.config.client)
        self._client = Client(client_config)
        self._group = WorkerGroup(
            client_config,
            self.config.group_id,
            [self.config.config_topic, self.config.offsets_topic, self.config.status_topic],
            support=self.config.support,
            session_timeout_ms=self.config.session_timeout_ms,
            rebalance_timeout_ms=self.config.rebalance_timeout_ms,
            heartbeat_ms=self.config.heartbeat_ms,
        )
        rest = self.config.rest
        context = None if rest.tls is None else server_context(rest.tls, rest.client_auth)
        self._rest = Server("semel-connect-rest", rest.listeners, context)
        self._term: Term | None = None
        self._not_before = 0.0
        #: Set once it answers for connectors, itself or through its leader.
        self.begun = threading.Event()
        self._ending = threading.Event()

    def _parsed(self, given: Mapping[str, str]) -> ConnectorConfig:
        config = self.config
        return within(config.connector_timeout_ms, given.get("name", ""), lambda: ConnectorConfig.parse(given, config))

    # ---- starting

    def prepare(self) -> None:
        """Listen, have the topics, join the group, and lead it if it has no other leader.

        Raises :class:`ConfigError` for topics that will not do, a port that is taken, and Kafka's own Connect in the
        group.
        """
        self._client.versions()
        self._rest.listen()
        try:
            self._rest.serve(rest_app(self.config, self))
            self._group.join(self._rest.url(self.config.rest.advertised, self.config.rest.scheme))
            self._ensure_topics()
            if self.leads:
                self._take_over()
            else:
                self._hand_files_on()
                self._serve()
        except BaseException:
            self._close_rest()
            self._group.close()
            raise

    def start(
        self,
        launcher: Launcher,
        on_change: Callable[[Status], None] = lambda _: None,
        on_message: Callable[[str, Mapping[str, Any]], None] = lambda _name, _message: None,
    ) -> None:
        """Start all tasks as the leader, and answer for them. The callbacks are those of
        :class:`~semel.processes.supervisor.Supervisor`.

        Raises :class:`Fenced` where another worker has come in between, and :class:`Retriable` where the topics cannot
        be read or written now: this one joins again then, so that another may lead.
        """
        try:
            term = self._term or self._take_over()
            term.start(launcher, self._given, on_change, on_message)
        except (AbortAndRetry, Fenced, Retriable):
            if self._term is not None:
                self._term.close()
                self._term = None
            self._step_back()
            self._serve()
            raise
        if self.config.config_topic is not None:
            self._given = []  # what REST changes from now on is not undone by the next term
        self._serve()

    def _take_over(self) -> Term:
        term = Term(self._client, self.config, self._properties, self._group)
        try:
            term.take_over()
        except BaseException:
            term.close()
            raise
        self._term = term
        return term

    def _serve(self) -> None:
        if not self.begun.is_set():
            self.begun.set()
            threading.Thread(target=self._watch, name="semel-connect-leader", daemon=True).start()

    # ---- what it is

    @property
    def addresses(self) -> list[str]:
        """The addresses on which REST listens."""
        return self._rest.addresses

    @property
    def leads(self) -> bool:
        """True if the group wants this worker to lead."""
        return self._group.role is not None and self._group.role.leads

    @property
    def due(self) -> bool:
        """True if it must be started: it leads, and runs nothing yet."""
        return self.leads and time.monotonic() >= self._not_before and not (self._term and self._term.started)

    @property
    def leader_url(self) -> str:
        """The address of the leader's REST, or an empty text if it has none or no worker leads."""
        role = self._group.role
        return role.url if role is not None else ""

    @property
    def herder(self) -> Herder:
        """The operations on connectors. Raises :class:`ConfigError` unless this worker leads."""
        return self._now.herder

    @property
    def statuses(self) -> StatusStore:
        """The states of connectors and tasks. Raises :class:`ConfigError` unless this worker leads."""
        return self._now.statuses

    @property
    def ready(self) -> bool:
        """True if this worker answers for connectors itself."""
        return self._term is not None and self._term.started

    @property
    def states(self) -> dict[str, dict[int, str]]:
        """The state of each task by connector; nothing unless this worker leads."""
        term = self._term
        return term.herder.states if term is not None and term.started else {}

    @property
    def counts(self) -> dict[str, dict[int, TaskCounts]]:
        """The newest report of each task by connector; nothing unless this worker leads."""
        term = self._term
        return term.herder.counts if term is not None and term.started else {}

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that connectors write to."""
        return self._client.cluster

    @property
    def _now(self) -> Term:
        term = self._term
        if term is None:
            raise ConfigError(
                "Cannot complete request momentarily: this worker does not lead its group. Nothing was changed. Ask"
                " again.",
                tag="NOT_LEADER",
            )
        return term

    @property
    def running(self) -> bool:
        """True if there is work: standby, REST of the leader, or a task that has not failed.

        Raises what keeps it out of the group.
        """
        if self._group.error is not None:
            raise self._group.error
        term = self._term
        if term is None or not term.started:
            return True
        return not term.spark_gone and (bool(self.config.rest.listeners) or not term.all_failed)

    # ---- ending

    def stop(self) -> None:
        """Let all tasks end, then leave the group, so that the next worker leads."""
        self._ending.set()
        self._close_rest()
        if self._term is not None:
            self._term.close()
        self._group.close()
        self._client.close()

    def _close_rest(self) -> None:
        self.begun.set()  # for requests that wait for it
        self._rest.close()

    def _watch(self) -> None:
        checked = time.monotonic()
        while not self._ending.wait(_WATCH_S):
            term = self._term
            if term is None or not term.started:
                continue
            if time.monotonic() - checked >= LEADER_CHECK_S:
                self._check(term)
                checked = time.monotonic()
            role = self._group.role
            if term.lost or self._group.error is not None or (role is not None and not role.leads):
                self._stand_down(term)

    def _check(self, term: Term) -> None:
        try:
            term.store.check_leader()
        except Fenced as error:
            log.error("%s", error)  # noqa: TRY400  its message says all
        except SemelError as error:
            log.warning("whether this worker leads is not known now: %s", error)

    def _stand_down(self, term: Term) -> None:
        """End what ran in a term, and stand by."""
        try:
            term.close()
        except Exception:  # whatever it is: the next leader fences what it has left
            log.exception("ending what ran here")
        if not self._ending.is_set():
            self._term = None
            if term.lost and self.leads:
                self._step_back()

    def _step_back(self) -> None:
        """Join again, and let another worker lead first."""
        self._not_before = time.monotonic() + _AGAIN_S
        self._group.join_again()

    # ---- the cluster

    def _ensure_topics(self) -> None:
        config, client = self.config, self._client
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

    def _hand_files_on(self) -> None:
        """Send each file to the leader as a PUT. If no leader takes it, it waits until this worker leads."""
        if self.config.config_topic is None:
            return
        while self._given and not self.leads:
            if not self._put(self._given[0]):
                log.warning("the leader has no REST: connector files wait until this worker leads")
                return
            del self._given[0]

    def _put(self, given: Mapping[str, str]) -> bool:
        """Have the leader take a connector, once it answers. False where it has no REST."""
        rest, path = self.config.rest, f"/connectors/{quote(given['name'].strip(), safe='')}/config"
        end = time.monotonic() + _LEADER_BEGINS_S
        while self.leader_url and not self.leads:
            body = json.dumps(given).encode()
            answer = ask_leader(self.leader_url, "PUT", path, {"forward": ["true"]}, rest.own_login, body, rest.tls)
            if answer.status in (200, 201):
                return True
            if answer.status != _CONFLICT or time.monotonic() > end:
                said = answer.problem or answer.body.decode(errors="replace")
                raise ConfigError(
                    f"the leader of group {self.config.group_id!r} did not take connector {given['name']!r}:"
                    f" {said:.2000} Nothing of it was changed. Correct its file, or start this worker without it.",
                    tag="NOT_TAKEN",
                )
            self._ending.wait(_WATCH_S)
        return False
