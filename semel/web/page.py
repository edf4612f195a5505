"""A page for browsers: its title, body and script, in the shell that all pages share.

It loads nothing from elsewhere: its content security policy says so to the browser.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

__all__ = ["FILES", "Page", "files_route"]

#: The path of the files of pages.
FILES = "/web"
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
    "Vary": "Accept",
}
_SHELL = """\
<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>{title}</title>
    <link rel="icon" href="web/icon.svg" type="image/svg+xml">
    <link rel="stylesheet" href="web/style.css">
    <script type="module" src="web/{script}"></script>
  </head>
  <body>
{body}  </body>
</html>
"""

_Answer = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Page:
    """A page. Its body is HTML, and its script a module among the files of :func:`files_route`."""

    title: str
    body: str
    script: str

    @property
    def html(self) -> str:
        """The whole page."""
        return _SHELL.format(title=self.title, body=self.body, script=self.script)

    def or_else(self, answer: _Answer) -> _Answer:
        """Return an endpoint that gives the page to clients that accept ``text/html``, and ``answer`` to all others."""

        async def chosen(request: Request) -> Response:
            accepted = [one.partition(";")[0].strip() for one in request.headers.get("accept", "").lower().split(",")]
            return HTMLResponse(self.html, headers=_HEADERS) if "text/html" in accepted else await answer(request)

        return chosen


def files_route(package: str, folder: str) -> Mount:
    """Return the route of the files that all pages share, and of those in a folder of this package."""
    return Mount(FILES, StaticFiles(packages=[("semel.web", "static"), (package, folder)]))
