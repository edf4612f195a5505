"""The state of a Python worker of Spark between tasks: a client for each cluster, whose connections serve the next task
too.
"""

from __future__ import annotations

from threading import get_ident

from semel.config import ClientConfig
from semel.wire.client import Client

__all__ = ["client"]

_clients: dict[tuple[int, ClientConfig], Client] = {}


def client(config: ClientConfig) -> Client:
    """Return the client of this thread. In a forked process it drops its parent's connections and opens its own."""
    key = (get_ident(), config)
    if key not in _clients:
        _clients[key] = Client(config)
    return _clients[key]
