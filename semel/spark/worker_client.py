"""What a Python worker of Spark keeps from one task to the next: a client for each cluster, whose connections serve the
next task too.
"""

from __future__ import annotations

from threading import get_ident

from semel.config import ClientConfig
from semel.wire.client import Client

__all__ = ["client"]

_clients: dict[tuple[int, ClientConfig], Client] = {}


def client(config: ClientConfig) -> Client:
    """The client of this thread. In a forked process it has let go of its parent's connections, and opens its own."""
    key = (get_ident(), config)
    if key not in _clients:
        _clients[key] = Client(config)
    return _clients[key]
