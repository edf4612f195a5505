"""REST of the mirror's process: the routes, who may ask, and the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from starlette.applications import Starlette

from semel.mirror.config.rest import MirrorRest
from semel.mirror.rest import about, connectors, offsets, page
from semel.mirror.rest.calls import ShownFlow
from semel.mirror.rest.flows import ROUTES as FLOWS
from semel.web.access import Access
from semel.web.app import make_app
from semel.web.basic_login import BasicLogin
from semel.web.server import Server
from semel.wire.security import server_context

__all__ = ["serving_rest"]


@contextmanager
def serving_rest(rest: MirrorRest, flows: Sequence[ShownFlow]) -> Iterator[list[str]]:
    """Answer for these flows until the block is left. Yield the addresses.

    Raises :class:`ConfigError` for a port that cannot be had.
    """
    config = rest.server
    context = None if config.tls is None else server_context(config.tls, config.client_auth)
    server = Server("semel-mirror-rest", config.listeners, context)
    server.listen()
    try:
        server.serve(_app(rest, flows))
        yield server.addresses
    finally:
        server.close()


def _app(rest: MirrorRest, flows: Sequence[ShownFlow]) -> Starlette:
    config = rest.server
    login = None if config.credentials is None else BasicLogin(config.credentials, "semel mirror")
    access = Access.of(config.listeners, config.advertised.rpartition(":")[0], origins=rest.origins, login=login)
    app = make_app([*about.ROUTES, *connectors.ROUTES, *offsets.ROUTES, *FLOWS, *page.ROUTES], access)
    app.state.flows, app.state.worker = flows, config.advertised
    return app
