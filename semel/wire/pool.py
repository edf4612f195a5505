"""The connections of a client: the open ones, their users, and their fate in a forked child.

Short requests share one connection to each broker. For each other purpose every thread has its own. Callers that leave
answers on their way lease one. Safe to share between threads; not between processes.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterable
from itertools import chain

from semel.config import ClientConfig
from semel.errors import Retriable
from semel.wire.connection import Connection
from semel.wire.deadline import Deadline
from semel.wire.metadata import Broker

__all__ = ["CONTROL", "ConnectionPool"]

log = logging.getLogger("semel.wire")

#: The purpose of short requests.
CONTROL = "control"


class ConnectionPool:
    """Open connections by broker and purpose."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._lock = threading.RLock()
        self._connections: dict[tuple[int, str], Connection] = {}
        self._idle: dict[int, list[Connection]] = {}
        self._leased: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._unreachable = False

    def forget_parent(self) -> None:
        """Drop the parent's connections in a forked child.

        Two processes on one connection would read each other's answers.
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

    def to_broker(self, node: int, purpose: str, look_up: Callable[[], Broker]) -> Connection:
        """Return the connection to a broker for a purpose. ``look_up`` finds its address if none is open."""
        with self._lock:
            kept = self._connections.get((node, _of_thread(purpose)))
            if kept is not None and not kept.closed:
                return kept
        return self._keep((node, _of_thread(purpose)), self._open(look_up()))

    def to_any(self, purpose: str, brokers: Iterable[Broker], deadline: Deadline) -> Connection:
        """Return a connection to any of these brokers, or of the bootstrap servers. Raise :class:`Retriable` if none
        can be reached, and warn once.
        """
        purpose = _of_thread(purpose)
        with self._lock:
            for (_, kept_purpose), connection in self._connections.items():
                if kept_purpose == purpose and not connection.closed:
                    return connection
        problems: list[str] = []
        bootstrap = [Broker(-1 - i, host, port) for i, (host, port) in enumerate(self._config.bootstrap_servers)]
        for broker in [*brokers, *bootstrap]:
            try:
                return self._keep((broker.node, purpose), self._open(broker))
            except Retriable as error:
                problems.append(error.message)
        message = "no broker could be reached, so this request was not sent: " + " ".join(problems[-3:])
        if not self._unreachable:  # the caller may retry for minutes before it reports this
            self._unreachable = True
            log.warning("%s It is tried again, for up to %g s in all.", message, deadline.timeout_ms / 1000)
        raise Retriable(message, tag="CONNECTION")

    def lease(self, node: int, look_up: Callable[[], Broker]) -> Connection:
        """Return a connection for one caller until it is given back: for callers that leave answers on their way."""
        with self._lock:
            idle = self._idle.get(node, [])
            while idle:
                connection = idle.pop()
                if not connection.closed:
                    self._leased.add(connection)
                    return connection
        connection = self._open(look_up())
        self._leased.add(connection)
        return connection

    def give_back(self, node: int, connection: Connection) -> None:
        """End a lease.

        A connection on which an answer is still due is closed: the next caller would read that answer as its own.
        """
        with self._lock:
            self._leased.discard(connection)
            if connection.waiting:
                connection.close()
            if not connection.closed:
                self._idle.setdefault(node, []).append(connection)

    def _open(self, broker: Broker) -> Connection:
        try:
            return Connection(broker.host, broker.port, self._config)
        except Retriable as error:
            if broker.node < 0:
                raise
            # the bootstrap server answers, so the user does not see that the address from the cluster is the problem
            raise Retriable(
                f"{error.message} Broker {broker.node} advertises that address (advertised.listeners).", tag=error.tag
            ) from None

    def _keep(self, key: tuple[int, str], connection: Connection) -> Connection:
        self._unreachable = False
        with self._lock:
            rival = self._connections.get(key)
            if rival is not None and not rival.closed:
                connection.close()
                return rival
            self._connections[key] = connection
            return connection


def _of_thread(purpose: str) -> str:
    """Return the purpose of this thread: a long fetch delays no other thread, and no thread reads another's answers."""
    return purpose if purpose == CONTROL else f"{purpose}:{threading.get_ident()}"
