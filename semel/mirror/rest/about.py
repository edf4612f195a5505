"""``/`` and ``/health``."""

from __future__ import annotations

from starlette.routing import Route

from semel._version import __version__
from semel.config import ClientConfig
from semel.mirror.rest.calls import Call, endpoint
from semel.mirror.rest.page import PAGE
from semel.web.calls import Answer
from semel.wire.client import Client

__all__ = ["ROUTES"]


def _root(call: Call) -> Answer:
    """Show the version, and the target cluster of the first flow."""
    with Client(ClientConfig.parse(call.flows[0].config.target)) as target:
        target.versions()
        cluster = target.cluster
    return Answer(body={"version": __version__, "commit": "semel", "kafka_cluster_id": cluster})


def _health(_: Call) -> Answer:
    """Say that the process answers (KIP-1017). What each flow does, its status says."""
    text = "Worker has completed startup and is ready to handle requests."
    return Answer(body={"status": "healthy", "message": text})


ROUTES = [
    Route("/", PAGE.or_else(endpoint(_root)), methods=["GET"]),
    Route("/health", endpoint(_health), methods=["GET"]),
]
