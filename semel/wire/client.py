"""A client of one cluster: connections, metadata, coordinators, and repeating within a deadline.

Every request of semel may be repeated: either it only asks, or the broker knows the repetition (a Produce by its
sequence, an EndTxn by its epoch), or the protocol says what a second one means. So :meth:`Client.ask` repeats after a
broken connection and after each code that :mod:`semel.wire.error_codes` calls temporary, until the deadline; what it
returns has been decided by the broker.

Safe to share between threads; not between processes.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain
from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest

from semel.config import ClientConfig
from semel.errors import ConfigError, Retriable
from semel.wire import error_codes
from semel.wire.api_versions import Versions
from semel.wire.connection import Connection
from semel.wire.deadline import Deadline
from semel.wire.error_codes import Action
from semel.wire.metadata import Leaders, Metadata, Topic, TopicPartition, by_node, metadata_request, named
from semel.wire.target import ANY, Anyone, GroupCoordinator, Target, TransactionCoordinator
from semel.wire.witnesses import known_to_any

__all__ = ["Client"]

_UNKNOWN_TOPIC = 3

log = logging.getLogger("semel.wire")


class Client:
    """Speaks to a cluster. Closed with :meth:`close` or as a context manager."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self._lock = threading.RLock()
        self._connections: dict[tuple[int, str], Connection] = {}
        self._idle: dict[int, list[Connection]] = {}
        self._leased: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._coordinators: dict[GroupCoordinator | TransactionCoordinator, int] = {}
        self._metadata: Metadata | None = None
        self._unreachable = False
        _living.add(self)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def forget_parent(self) -> None:
        """In a forked child: let go of the parent's connections.

        Two processes on one would read each other's answers.
        """
        inherited = (*self._connections.values(), *chain(*self._idle.values()), *self._leased)
        self._lock, self._connections, self._idle, self._leased = threading.RLock(), {}, {}, weakref.WeakSet()
        for connection in inherited:
            connection.let_go()

    def close(self) -> None:
        """Close all connections. A request under way in another thread ends as a broken connection."""
        with self._lock:
            for connection in (*self._connections.values(), *chain(*self._idle.values()), *self._leased):
                connection.close()
            self._connections.clear()
            self._idle.clear()

    def deadline(self, timeout_ms: float | None = None) -> Deadline:
        """A deadline with this client's back-off; ``default.api.timeout.ms`` unless told otherwise."""
        config = self.config
        timeout = config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return Deadline(timeout, backoff_ms=config.retry_backoff_ms, backoff_max_ms=config.retry_backoff_max_ms)

    # ---- asking

    def ask(
        self,
        target: Target,
        request: Any,
        versions: tuple[int, int],
        *,
        code: Callable[[Any], int] = lambda answer: int(answer.error_code),
        deadline: Deadline | None = None,
        sent: Callable[[], None] | None = None,
    ) -> Any:
        """Send ``request`` to ``target`` until it is answered with a code that is not temporary, and return that
        answer.

        ``versions`` are the lowest and highest that the caller can read; ``sent`` is called between each sending and
        its answer. Raises :class:`Retriable` when the deadline passes first.
        """
        deadline = deadline or self.deadline()
        api = type(request).__name__.removesuffix("Request")
        problem = ""
        while True:
            try:
                connection = self.connect(target, deadline)
                version = connection.versions.pick(type(request), *versions)
                timeout = min(deadline.remaining + 0.001, self.config.request_timeout_ms / 1000)
                answer = connection.call(request, version, timeout=timeout, sent=sent)
                problem = error_codes.name(code(answer))
                verdict = error_codes.of(api, code(answer))
                if not verdict.temporary:
                    return answer
                if verdict is Action.COORDINATOR:
                    self.forget(target)
            except Retriable as error:
                # a last try may have had no time to learn anything
                problem = problem if problem and deadline.passed else error.message
                self.forget(target)
            if deadline.passed:
                raise self._timeout(api, target, problem, deadline)
            deadline.pause()

    def ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        build: Callable[[list[TopicPartition]], Any],
        rows: Callable[[Any], Mapping[TopicPartition, Any]],
        versions: tuple[int, int],
        *,
        leaders: Leaders | None = None,
        deadline: Deadline | None = None,
    ) -> dict[TopicPartition, Any]:
        """Ask the leader of each partition, in as few requests as there are leaders. ``rows`` takes an answer apart; a
        row has an ``error_code``.

        Returns one row a partition. Raises the error of a code that repeating does not cure, or :class:`Retriable` at
        the deadline.

        With ``leaders`` these brokers are asked and no others, once, and a partition that got no answer is left out.
        """
        deadline = deadline or self.deadline()
        if leaders is not None:
            return self._ask_nodes(by_node(leaders, partitions), build, rows, versions, deadline)[0]
        left = set(partitions)
        found: dict[TopicPartition, Any] = {}
        while left:
            answered, problem = self._ask_nodes(self._by_leader(left, deadline), build, rows, versions, deadline)
            found |= answered
            left -= answered.keys()
            if left:
                if deadline.passed:
                    subject = f"no answer for {named(left)} within {deadline.timeout_ms:.0f} ms"
                    raise error_codes.given_up(
                        subject, problem or "no leader", "Nothing was read or written by this request."
                    )
                deadline.pause()
                self.refresh({topic for topic, _ in left}, deadline)
        return found

    def _ask_nodes(
        self,
        led: Mapping[int, Collection[TopicPartition]],
        build: Callable[[list[TopicPartition]], Any],
        rows: Callable[[Any], Mapping[TopicPartition, Any]],
        versions: tuple[int, int],
        deadline: Deadline,
    ) -> tuple[dict[TopicPartition, Any], str]:
        """Ask each broker once for its partitions: the rows that came, and the last problem of those that did not."""
        found: dict[TopicPartition, Any] = {}
        problem = ""
        for node, partitions in led.items():
            request = build(sorted(partitions))
            api = type(request).__name__.removesuffix("Request")
            try:
                connection = self.connect(node, deadline)
                answer = connection.call(request, connection.versions.pick(type(request), *versions))
            except Retriable as error:
                problem = error.message
                self.forget(node)
                continue
            for partition, row in rows(answer).items():
                verdict = error_codes.of(api, row.error_code)
                if verdict is Action.OK:
                    found[partition] = row
                elif not verdict.temporary:
                    raise error_codes.error(
                        api,
                        row.error_code,
                        f"{api} of {partition[0]}-{partition[1]}",
                        "Nothing was read or written by it.",
                    )
                else:
                    problem = error_codes.name(row.error_code)
        return found, problem

    def _by_leader(self, partitions: Iterable[TopicPartition], deadline: Deadline) -> dict[int, list[TopicPartition]]:
        partitions = list(partitions)
        topics = self.topics({topic for topic, _ in partitions}, deadline)
        led: dict[int, list[TopicPartition]] = {}
        for topic, index in partitions:
            known = topics[topic].partitions.get(index)
            if known is None:
                raise ConfigError(
                    f"topic {topic} has no partition {index}: it has {len(topics[topic].partitions)}. Nothing was"
                    " read or written by this request.",
                    tag="UNKNOWN_PARTITION",
                )
            if known.leader >= 0:
                led.setdefault(known.leader, []).append((topic, index))
        return led

    def _timeout(self, api: str, target: Target, problem: str, deadline: Deadline) -> Retriable:
        where = (
            f"broker {target}"
            if isinstance(target, int)
            else {"Anyone": "any broker"}.get(type(target).__name__, f"coordinator of {target}")
        )
        subject = f"{api} ({where}) was not settled within {deadline.timeout_ms:.0f} ms; the last thing seen"
        return error_codes.given_up(subject, problem, error_codes.unanswered(api))

    # ---- where to ask

    def connect(self, target: Target, deadline: Deadline | None = None, purpose: str = "control") -> Connection:
        """An open connection to ``target``.

        One for short requests is shared by all threads; for each other purpose every thread has its own, so that a long
        fetch holds nothing else up and nobody reads the answers to another's requests.
        """
        deadline = deadline or self.deadline()
        if purpose != "control":
            purpose = f"{purpose}:{threading.get_ident()}"
        if isinstance(target, Anyone):
            return self._connect_any(deadline, purpose)
        node = target if isinstance(target, int) else self._coordinator(target, deadline)
        return self._connect_node(node, deadline, purpose)

    def versions(self, deadline: Deadline | None = None) -> Versions:
        """What some broker of the cluster speaks, repeated until one answers.

        Raises :class:`Retriable` at the deadline.
        """
        deadline = deadline or self.deadline()
        while True:
            try:
                return self.connect(ANY, deadline).versions
            except Retriable as error:
                if deadline.passed:
                    subject = f"the cluster did not answer within {deadline.timeout_ms:.0f} ms"
                    raise error_codes.given_up(
                        subject, error.message, "Nothing was read or written by this request.", error.tag
                    ) from None
            deadline.pause()

    def lease(self, node: int, deadline: Deadline) -> Connection:
        """A connection that nobody else uses until it is given back: for whoever leaves answers on their way."""
        with self._lock:
            idle = self._idle.get(node, [])
            while idle:
                connection = idle.pop()
                if not connection.closed:
                    self._leased.add(connection)
                    return connection
        connection = self._open(node, deadline)
        self._leased.add(connection)
        return connection

    def give_back(self, node: int, connection: Connection) -> None:
        """End a lease.

        A connection on which an answer is still due serves nobody any more: the next one would read it as its own.
        """
        with self._lock:
            self._leased.discard(connection)
            if connection.waiting:
                connection.close()
            if not connection.closed:
                self._idle.setdefault(node, []).append(connection)

    def _connect_node(self, node: int, deadline: Deadline, purpose: str) -> Connection:
        with self._lock:
            kept = self._connections.get((node, purpose))
            if kept is not None and not kept.closed:
                return kept
        return self._keep((node, purpose), self._open(node, deadline))

    def _open(self, node: int, deadline: Deadline) -> Connection:
        metadata = self._metadata
        if metadata is None or node not in metadata.brokers:
            metadata = self.refresh((), deadline)
        if node not in metadata.brokers:
            raise Retriable(f"broker {node} is not in the cluster at the moment.", tag="CONNECTION")
        broker = metadata.brokers[node]
        return Connection(broker.host, broker.port, self.config)

    def _connect_any(self, deadline: Deadline, purpose: str) -> Connection:
        with self._lock:
            for (_, kept_purpose), connection in self._connections.items():
                if kept_purpose == purpose and not connection.closed:
                    return connection
        problems: list[str] = []
        known = [(b.node, b.host, b.port) for b in self._metadata.brokers.values()] if self._metadata else []
        bootstrap = [(-1 - i, host, port) for i, (host, port) in enumerate(self.config.bootstrap_servers)]
        for node, host, port in [*known, *bootstrap]:
            try:
                return self._keep((node, purpose), Connection(host, port, self.config))
            except Retriable as error:
                problems.append(error.message)
        told = "no broker could be reached: " + " ".join(problems[-3:])
        if not self._unreachable:  # what asks may go on trying for minutes before it says so
            self._unreachable = True
            log.warning("%s It is tried again, for up to %g s in all.", told, deadline.timeout_ms / 1000)
        raise Retriable(told, tag="CONNECTION")

    def _keep(self, key: tuple[int, str], connection: Connection) -> Connection:
        self._unreachable = False
        with self._lock:
            rival = self._connections.get(key)
            if rival is not None and not rival.closed:
                connection.close()
                return rival
            self._connections[key] = connection
            return connection

    def _coordinator(self, target: GroupCoordinator | TransactionCoordinator, deadline: Deadline) -> int:
        known = self._coordinators.get(target)
        if known is not None:
            return known
        answer = self.ask(
            ANY,
            FindCoordinatorRequest(key_type=target.kind, coordinator_keys=[target.key]),
            (4, 6),
            code=lambda answer: int(answer.coordinators[0].error_code),
            deadline=deadline,
        )
        row = answer.coordinators[0]
        if row.error_code:
            raise error_codes.error(
                "FindCoordinator", row.error_code, f"looking up the coordinator of {target}", "Nothing was written."
            )
        self._coordinators[target] = int(row.node_id)
        return int(row.node_id)

    def forget(self, target: Target) -> None:
        """Look it up again before it is asked the next time: what was known of it led nowhere."""
        if isinstance(target, GroupCoordinator | TransactionCoordinator):
            node = self._coordinators.pop(target, None)
            if node is not None:
                self.forget(node)
        elif isinstance(target, int):
            with self._lock:
                if self._metadata is not None:
                    brokers = {node: broker for node, broker in self._metadata.brokers.items() if node != target}
                    self._metadata = Metadata(
                        self._metadata.cluster,
                        self._metadata.controller,
                        brokers,
                        self._metadata.topics,
                        self._metadata.taken,
                    )

    # ---- metadata

    @property
    def cluster(self) -> str:
        """The cluster's id."""
        return (self._metadata or self.refresh(())).cluster

    def brokers(self, deadline: Deadline | None = None) -> Collection[int]:
        """Node ids of the brokers that are in the cluster now."""
        return self.refresh((), deadline).brokers.keys()

    def topics(self, names: Collection[str], deadline: Deadline | None = None) -> dict[str, Topic]:
        """What is known of these topics, at most ``metadata.max.age.ms`` old.

        Raises :class:`ConfigError` for one that is not there.
        """
        metadata = self._metadata
        if (
            metadata is None
            or metadata.age * 1000 > self.config.metadata_max_age_ms
            or any(name not in metadata.topics for name in names)
        ):
            metadata = self.refresh(names, deadline)
        return {name: metadata.topics[name] for name in names}

    def leaders(
        self, partitions: Collection[TopicPartition], deadline: Deadline | None = None
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Who leads these partitions, as of what :meth:`topics` knows; those that are not there are left out."""
        known = self.topics({topic for topic, _ in partitions}, deadline)
        there = ((topic, index, known[topic].partitions.get(index)) for topic, index in partitions)
        return {(topic, index): (row.leader, row.leader_epoch) for topic, index, row in there if row is not None}

    def existing(self, names: Collection[str], deadline: Deadline | None = None) -> dict[str, Topic]:
        """Those of these topics that exist now."""
        if not names:
            return {}
        topics = self.refresh(names, deadline, may_miss=True).topics
        return {name: topics[name] for name in names if name in topics}

    def refresh(
        self, names: Collection[str] | None, deadline: Deadline | None = None, *, may_miss: bool = False
    ) -> Metadata:
        """Ask for metadata of these topics now (None: of all topics), and keep it.

        Raises :class:`ConfigError` for one that is not there, unless it ``may_miss``.
        """
        deadline = deadline or self.deadline()
        while True:
            newer = Metadata.read(self.ask(ANY, metadata_request(names), (12, 13), code=lambda _: 0, deadline=deadline))
            absent = {topic.name for topic in newer.topics.values() if topic.error == _UNKNOWN_TOPIC}
            if absent and not deadline.passed and known_to_any(self, absent, newer.brokers.keys(), deadline):
                deadline.pause()  # the one that was asked has not heard of it yet
                continue
            problems = {
                t.name: t.error
                for t in newer.topics.values()
                if t.error and names and not (may_miss and t.name in absent)
            }
            if not problems:
                with self._lock:
                    # an answer about all topics is the whole truth: what is not in it was deleted
                    known = self._metadata.merged(newer) if self._metadata and names is not None else newer
                    self._metadata = known.without(absent)
                    return self._metadata
            missing, code = next(iter(problems.items()))
            if code == _UNKNOWN_TOPIC:
                raise ConfigError(
                    f"topic {missing} does not exist. Nothing was read or written. Create it, or correct its name.",
                    tag="UNKNOWN_TOPIC",
                )
            if not error_codes.of("Metadata", code).temporary:
                raise error_codes.error(
                    "Metadata", code, f"metadata of topic {missing}", "Nothing was read or written."
                )
            if deadline.passed:
                subject = f"metadata of topic {missing} was not settled within {deadline.timeout_ms:.0f} ms"
                raise error_codes.given_up(
                    subject, error_codes.name(code), "Nothing was read or written by this request."
                )
            deadline.pause()


_living: weakref.WeakSet[Client] = weakref.WeakSet()


def _forked() -> None:
    for client in _living:
        client.forget_parent()


os.register_at_fork(after_in_child=_forked)
