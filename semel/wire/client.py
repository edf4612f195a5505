"""A client of one cluster: connections, metadata, coordinators, and repetition within a deadline.

Every request of semel may be repeated. It only asks, or the broker recognises the repetition (a Produce by its
sequence, an EndTxn by its epoch), or the protocol defines the meaning of a second one. So :meth:`Client.ask` repeats
after a broken connection and after each code that :mod:`semel.wire.error_codes` calls temporary, until the deadline.
The broker has decided about the answer that it returns.

Safe to share between threads; not between processes.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest

from semel.config import ClientConfig
from semel.errors import ConfigError, Retriable
from semel.wire import error_codes
from semel.wire.api_versions import Versions
from semel.wire.connection import Connection
from semel.wire.deadline import Deadline
from semel.wire.error_codes import Action
from semel.wire.fetch_session import FormerSessions
from semel.wire.metadata import Leaders, TopicPartition, by_node, named
from semel.wire.metadata_cache import MetadataCache
from semel.wire.pool import CONTROL, ConnectionPool
from semel.wire.target import ANY, Anyone, GroupCoordinator, Target, TransactionCoordinator

__all__ = ["Client"]


class Client(MetadataCache):
    """A connection to a cluster. Use it as a context manager, or call :meth:`close`."""

    def __init__(self, config: ClientConfig) -> None:
        super().__init__(config)
        self._pool = ConnectionPool(config)
        self._coordinators: dict[GroupCoordinator | TransactionCoordinator, int] = {}
        self.former_sessions = FormerSessions()
        _living.add(self)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def forget_parent(self) -> None:
        """Drop the parent's connections in a forked child."""
        super().forget_parent()
        self._pool.forget_parent()
        self.former_sessions = FormerSessions()

    def close(self) -> None:
        """Close all connections. A request under way in another thread ends as a broken connection."""
        self._pool.close()

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
        """Send ``request`` to ``target`` until the answer has a code that is not temporary, and return that answer.

        ``versions`` are the lowest and highest that the caller can read. ``sent`` is called between each request and
        its answer. Raise :class:`Retriable` if the deadline passes first.
        """
        deadline = deadline or self.deadline()
        api = type(request).__name__.removesuffix("Request")
        problem = ""
        for _ in deadline.attempts():
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
                problem = deadline.cause(problem, error.message)
                self.forget(target)
            deadline.warn(f"{api}: {problem}")
        raise self._timeout(api, target, problem, deadline)

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
        """Ask the leader of each partition, in as few requests as there are leaders. ``rows`` splits an answer into
        rows with an ``error_code``.

        Return one row for each partition. Raise the error of a code that is not temporary, or :class:`Retriable` at the
        deadline.

        With ``leaders`` only these brokers are asked, once. A partition without an answer is left out.
        """
        deadline = deadline or self.deadline()
        if leaders is not None:
            return self._ask_nodes(by_node(leaders, partitions), build, rows, versions, deadline)[0]
        left = set(partitions)
        partition_rows: dict[TopicPartition, Any] = {}
        problem = ""
        while left:
            answered, seen = self._ask_nodes(self._by_leader(left, deadline), build, rows, versions, deadline)
            problem = deadline.cause(problem, seen)
            partition_rows |= answered
            left -= answered.keys()
            if left:
                if deadline.passed:
                    subject = f"no answer for {named(left)} within {deadline.timeout_ms:.0f} ms"
                    raise error_codes.given_up(
                        subject, problem or "no leader", "Nothing was read or written by this request."
                    )
                deadline.warn(f"{named(left)}: {problem or 'no leader'}")
                deadline.pause()
                try:
                    self.refresh({topic for topic, _ in left}, deadline)
                except Retriable as error:  # the time is over: a problem from before says more
                    problem = problem or error.message
        return partition_rows

    def _ask_nodes(
        self,
        led: Mapping[int, Collection[TopicPartition]],
        build: Callable[[list[TopicPartition]], Any],
        rows: Callable[[Any], Mapping[TopicPartition, Any]],
        versions: tuple[int, int],
        deadline: Deadline,
    ) -> tuple[dict[TopicPartition, Any], str]:
        """Ask each broker once for its partitions. Return the rows that came, and the last problem of the others."""
        partition_rows: dict[TopicPartition, Any] = {}
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
                    partition_rows[partition] = row
                elif not verdict.temporary:
                    raise error_codes.error(
                        api,
                        row.error_code,
                        f"{api} of {partition[0]}-{partition[1]}",
                        "Nothing was read or written by it.",
                    ).at(partition)
                else:
                    problem = error_codes.name(row.error_code)
        return partition_rows, problem

    def _by_leader(self, partitions: Iterable[TopicPartition], deadline: Deadline) -> dict[int, list[TopicPartition]]:
        partitions = list(partitions)
        topics = self.topics({topic for topic, _ in partitions}, deadline)
        led: dict[int, list[TopicPartition]] = {}
        for topic, index in partitions:
            partition = topics[topic].partitions.get(index)
            if partition is None:
                raise ConfigError(
                    f"topic {topic} has no partition {index}: it has {len(topics[topic].partitions)}. Nothing was"
                    " read or written by this request.",
                    tag="UNKNOWN_PARTITION",
                ).at((topic, index))
            if partition.leader >= 0:
                led.setdefault(partition.leader, []).append((topic, index))
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

    def connect(self, target: Target, deadline: Deadline | None = None, purpose: str = CONTROL) -> Connection:
        """Return an open connection to ``target``.

        All threads share one connection for short requests. For each other purpose every thread has its own.
        """
        deadline = deadline or self.deadline()
        if isinstance(target, Anyone):
            return self._pool.to_any(purpose, self.known_brokers, deadline)
        node = target if isinstance(target, int) else self._coordinator(target, deadline)
        return self._pool.to_broker(node, purpose, lambda: self.broker(node, deadline))

    def versions(self, deadline: Deadline | None = None) -> Versions:
        """Return the API versions of a broker of the cluster. Repeat until one answers.

        Raise :class:`Retriable` at the deadline.
        """
        deadline = deadline or self.deadline()
        for _ in deadline.attempts():
            try:
                return self.connect(ANY, deadline).versions
            except Retriable as error:
                problem = error
        subject = f"the cluster did not answer within {deadline.timeout_ms:.0f} ms"
        raise error_codes.given_up(
            subject, problem.message, "Nothing was read or written by this request.", problem.tag
        ) from None

    def lease(self, node: int, deadline: Deadline) -> Connection:
        """Return a connection for one caller until it is given back: for callers that leave answers on their way."""
        return self._pool.lease(node, lambda: self.broker(node, deadline))

    def give_back(self, node: int, connection: Connection) -> None:
        """End a lease. A connection on which an answer is still due is closed."""
        self._pool.give_back(node, connection)

    def _coordinator(self, target: GroupCoordinator | TransactionCoordinator, deadline: Deadline) -> int:
        if target not in self._coordinators:
            self._find_coordinators([target], deadline)
        return self._coordinators[target]

    def transaction_coordinators(self, ids: Iterable[str], deadline: Deadline) -> dict[str, int]:
        """Return the coordinator of each transactional id. Those that are not known are looked up in one request."""
        targets = [TransactionCoordinator(transactional_id) for transactional_id in ids]
        unknown = [target for target in targets if target not in self._coordinators]
        if unknown:
            self._find_coordinators(unknown, deadline)
        return {target.key: self._coordinator(target, deadline) for target in targets}

    def _find_coordinators(
        self, targets: Sequence[GroupCoordinator | TransactionCoordinator], deadline: Deadline
    ) -> None:
        answer = self.ask(
            ANY,
            FindCoordinatorRequest(key_type=targets[0].kind, coordinator_keys=[target.key for target in targets]),
            (4, 6),
            code=lambda answer: next((int(row.error_code) for row in answer.coordinators if row.error_code), 0),
            deadline=deadline,
        )
        by_key = {row.key: row for row in answer.coordinators}
        for target in targets:
            row = by_key[target.key]
            if row.error_code:
                raise error_codes.error(
                    "FindCoordinator", row.error_code, f"looking up the coordinator of {target}", "Nothing was written."
                )
            self._coordinators[target] = int(row.node_id)

    def forget(self, target: Target) -> None:
        """Forget the address of ``target``: it is looked up again before the next request."""
        if isinstance(target, GroupCoordinator | TransactionCoordinator):
            node = self._coordinators.pop(target, None)
            if node is not None:
                self.forget(node)
        elif isinstance(target, int):
            self.forget_broker(target)


_living: weakref.WeakSet[Client] = weakref.WeakSet()


def _forked() -> None:
    for client in _living:
        client.forget_parent()


os.register_at_fork(after_in_child=_forked)
