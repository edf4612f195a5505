"""The page for browsers: what ``/`` answers who asks for HTML, and the files of ``semel/connect/web``.

It uses nothing but REST, and loads nothing from elsewhere: its content security policy says so to the browser.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

__all__ = ["ROUTES", "page_or"]

_FOLDER = Path(__file__).parents[1] / "web"
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
    "Vary": "Accept",
}

_Answer = Callable[[Request], Awaitable[Response]]


def page_or(answer: _Answer) -> _Answer:
    """Return an endpoint that gives the page to clients that accept ``text/html``, and its own answer to all others."""

    async def chosen(request: Request) -> Response:
        accepted = [one.partition(";")[0].strip() for one in request.headers.get("accept", "").lower().split(",")]
        if "text/html" in accepted:
            return FileResponse(_FOLDER / "index.html", headers=_HEADERS)
        return await answer(request)

    return chosen


ROUTES = [Mount("/web", StaticFiles(directory=_FOLDER))]
