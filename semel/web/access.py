"""Who may ask: pages of this server, and those that a login lets in.

A web page elsewhere must not restart connectors. A browser names the page in ``Origin``, and the name by which it found
this server in ``Host``: both must be the server's own, or allowed.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from semel.web.answers import failed
from semel.web.listener import Listener

__all__ = ["Access", "Login"]

#: Looks who asks. None lets the request pass, an answer refuses it.
Login = Callable[[Request], Awaitable[Response | None]]


@dataclass(frozen=True, slots=True)
class Access:
    """The names of a server, the other sites whose pages may ask, and a login. Without a login all may ask."""

    hosts: frozenset[str]
    origins: Sequence[str] = ()
    login: Login | None = None

    @classmethod
    def of(
        cls, listeners: Sequence[Listener], *names: str, origins: Sequence[str] = (), login: Login | None = None
    ) -> Access:
        """Return the access to a server: its names are the machine's, those that it listens on, and these."""
        own = ["localhost", socket.gethostname(), *(listener.host for listener in listeners if listener.host), *names]
        return cls(frozenset(name.lower() for name in own), origins, login)

    @property
    def middleware(self) -> list[Middleware]:
        """The checks of each request."""
        checks = [Middleware(BaseHTTPMiddleware, dispatch=self._check)]
        if self.origins:
            allowed = list(self.origins)
            cors = Middleware(CORSMiddleware, allow_origins=allowed, allow_methods=["*"], allow_headers=["*"])
            checks.insert(0, cors)  # a browser asks first whether it may send a login, and sends none with that
        return checks

    async def _check(self, request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
        refusal = self._refusal(request)
        if refusal is not None:
            return failed(403, refusal)
        refused = await self.login(request) if self.login is not None else None
        return refused if refused is not None else await proceed(request)

    def _refusal(self, request: Request) -> str | None:
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if not self._is_own(urlsplit(f"//{host}").hostname or ""):
            return f"Host {host:.100} is not this worker. Nothing was done. Use its own name or address."
        allowed = self.origins
        if origin is not None and "*" not in allowed and origin not in allowed and urlsplit(origin).netloc != host:
            return f"Origin {origin:.100} is another site. Nothing was done. Name it in access.control.allow.origin."
        # a picture or a link of another site has no Origin; the page itself may be linked to
        if origin is None and request.headers.get("sec-fetch-site") == "cross-site" and request.url.path != "/":
            return "Another site asked for this in a browser. Nothing was done. Open the worker's own page."
        return None

    def _is_own(self, host: str) -> bool:
        """Return whether a request may name this host. A name's owner can make it lead here, but not an address."""
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return host.lower() in self.hosts
        return True
