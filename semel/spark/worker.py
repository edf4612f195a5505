"""What a Python worker of Spark keeps from one task to the next: a client for each cluster, whose connections serve the next task too."""

from __future__ import annotations

import os
from threading import get_ident

from semel.config import ClientConfig
from semel.wire.client import Client

__all__ = ["client"]

_clients: dict[tuple[int, int, ClientConfig], Client] = {}


def client(config: ClientConfig) -> Client:
    """The client of this thread. A forked process, which must not speak on its parent's connections, has its own."""
    key = (os.getpid(), get_ident(), config)
    if key not in _clients:
        _clients[key] = Client(config)
    return _clients[key]
