"""The application of some routes. A path with a slash at its end is the path without."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from semel.web.access import Access
from semel.web.answers import failed
from semel.web.page import FILES

__all__ = ["make_app"]


def make_app(routes: Sequence[BaseRoute], access: Access) -> Starlette:
    """Make the application."""
    return Starlette(
        routes=routes,
        middleware=[Middleware(_OneName), *access.middleware],
        exception_handlers={HTTPException: _refused},
    )


class _OneName:
    """Serves ``/connectors/`` as ``/connectors``, as Kafka Connect does: clients do not follow a redirect of a POST."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if path.endswith("/") and path.strip("/") and not path.startswith(f"{FILES}/"):
            scope = {**scope, "path": path.rstrip("/"), "raw_path": scope["raw_path"].rstrip(b"/")}
        await self._app(scope, receive, send)


async def _refused(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: "Not Found", 405: "Method Not Allowed"}.get(status, "Error")
    return failed(status, f"HTTP {status} {words}")
