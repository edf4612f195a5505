"""The routes of REST."""

from __future__ import annotations

from starlette.applications import Starlette

from semel.connect.rest import about, connectors, offsets, page, plugins
from semel.connect.rest.calls import Answering
from semel.connect.settings.worker_config import WorkerConfig
from semel.web.access import Access
from semel.web.app import make_app
from semel.web.basic_login import BasicLogin

__all__ = ["rest_app"]


def rest_app(config: WorkerConfig, worker: Answering) -> Starlette:
    """Make the application. Pages of other sites may ask if ``access.control.allow.origin`` names them, and
    users of the file of logins where there is one.
    """
    rest = config.rest
    login = None if rest.credentials is None else BasicLogin(rest.credentials, "semel connect")
    access = Access.of(rest.listeners, rest.advertised.rpartition(":")[0], origins=config.origins, login=login)
    routes = [*about.ROUTES, *connectors.ROUTES, *offsets.ROUTES, *plugins.ROUTES, *page.ROUTES]
    app = make_app(routes, access)
    app.state.worker = worker
    return app
