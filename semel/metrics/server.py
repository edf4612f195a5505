"""The HTTP endpoint that Prometheus scrapes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from semel.errors import ConfigError
from semel.metrics.families import Collector

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import CollectorRegistry

__all__ = ["MetricsServer", "serve"]


class MetricsServer:
    """An HTTP endpoint that serves metrics until it is closed, or the process ends."""

    def __init__(
        self,
        server: WSGIServer,
        thread: threading.Thread,
        registry: CollectorRegistry,
        collectors: Sequence[Collector],
    ) -> None:
        self._server, self._thread = server, thread
        self._registry, self._collectors = registry, collectors
        #: Where it listens.
        self.port: int = server.server_port

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, and take semel's metrics out of the registry."""
        _unregister(self._registry, self._collectors)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        for collector in self._collectors:
            collector.close()


def serve(
    collectors: Sequence[Collector], port: int, address: str = "127.0.0.1", registry: CollectorRegistry | None = None
) -> MetricsServer:
    """Serve what these collectors show over HTTP, in a thread that ends with the process.

    ``port`` 0 takes any that is free. With a ``registry``, everything else in that is served too. Raises
    :class:`ConfigError` where the port is not to be had, and what the registry raises if it has these metrics already.
    """
    from prometheus_client import CollectorRegistry, start_http_server

    served = registry if registry is not None else CollectorRegistry()
    registered: list[Collector] = []
    try:
        for collector in collectors:
            served.register(collector)
            registered.append(collector)
        server, thread = start_http_server(port, address, served)
    except OSError as error:
        _unregister(served, registered)
        raise ConfigError(
            f"metrics cannot be served at {address}:{port}: {error.strerror or error}. Nothing else is touched by it."
            " Give another port.",
            tag="METRICS_PORT",
        ) from None
    except ValueError:  # the registry has one of them already
        _unregister(served, registered)
        raise
    return MetricsServer(server, thread, served, collectors)


def _unregister(registry: CollectorRegistry, collectors: Sequence[Collector]) -> None:
    for collector in collectors:
        registry.unregister(collector)
