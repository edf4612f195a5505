"""The option ``--metrics-port``, and the server behind it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from semel.spark.metrics.prometheus import MetricsServer

__all__ = ["MetricsPort", "serve"]

log = logging.getLogger("semel.cli")

MetricsPort = Annotated[
    int | None,
    typer.Option("--metrics-port", help="Serve metrics for Prometheus on this port of this machine.", min=0, max=65535),
]


def serve(port: int, collector: Collector) -> MetricsServer:
    """Serve what this collector collects, and the numbers of this process's sinks.

    Raises :class:`~semel.errors.ConfigError` where ``prometheus-client`` is missing or the port is not to be had.
    """
    from semel.spark.metrics.prometheus import serve_metrics

    try:
        from prometheus_client import CollectorRegistry
    except ImportError:
        return serve_metrics(port)  # its error names the missing package
    registry = CollectorRegistry()
    registry.register(collector)
    server = serve_metrics(port, registry=registry)
    log.info("metrics: http://127.0.0.1:%d/metrics", server.port)
    return server
