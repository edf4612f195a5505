"""The routes of REST, and who may ask.

A web page elsewhere must not restart connectors. A browser names the page in ``Origin``, and the name by which it found
this worker in ``Host``: both must be this worker's own, or allowed by ``access.control.allow.origin``.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from semel.connect.rest import about, connectors, offsets, plugins, web
from semel.connect.rest.calls import Answering, failed
from semel.connect.settings.worker_config import WorkerConfig

__all__ = ["make_app"]


def make_app(config: WorkerConfig, worker: Answering) -> Starlette:
    """Make the application."""
    names = {"localhost", socket.gethostname().lower(), config.advertised.rpartition(":")[0].lower()}
    names |= {listener.host.lower() for listener in config.listeners if listener.host}

    async def check(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
        host = request.headers.get("host", "")
        if not _known(urlsplit(f"//{host}").hostname or "", names):
            return failed(403, f"Host {host:.100} is not this worker. Nothing was done. Use its own name or address.")
        origin = request.headers.get("origin")
        allowed = config.origins
        if origin is not None and "*" not in allowed and origin not in allowed and urlsplit(origin).netloc != host:
            return failed(
                403,
                f"Origin {origin:.100} is another site. Nothing was done. Name it in access.control.allow.origin.",
            )
        # a picture or a link of another site has no Origin; the page itself may be linked to
        if origin is None and request.headers.get("sec-fetch-site") == "cross-site" and request.url.path != "/":
            return failed(
                403, "Another site asked for this in a browser. Nothing was done. Open the worker's own page."
            )
        return await proceed(request)

    middleware = [Middleware(_OneName), Middleware(BaseHTTPMiddleware, dispatch=check)]
    if config.origins:
        middleware.append(
            Middleware(CORSMiddleware, allow_origins=list(config.origins), allow_methods=["*"], allow_headers=["*"])
        )
    app = Starlette(
        routes=[
            *about.ROUTES,
            *connectors.ROUTES,
            *offsets.ROUTES,
            *plugins.ROUTES,
            *web.ROUTES,
        ],
        middleware=middleware,
        exception_handlers={HTTPException: _refused},
    )
    app.state.worker = worker
    return app


class _OneName:
    """Serves ``/connectors/`` as ``/connectors``, as Kafka Connect does: clients do not follow a redirect of a POST."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if path.endswith("/") and path.strip("/") and not path.startswith("/web/"):
            scope = {**scope, "path": path.rstrip("/"), "raw_path": scope["raw_path"].rstrip(b"/")}
        await self._app(scope, receive, send)


def _known(host: str, names: set[str]) -> bool:
    """Return whether a request may name this host. The owner of a name can make it lead here, but not an address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host.lower() in names
    return True


async def _refused(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: "Not Found", 405: "Method Not Allowed"}.get(status, "Error")
    return failed(status, f"HTTP {status} {words}")
