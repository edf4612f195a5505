"""The life of a server: it takes its ports, answers on a thread of its own, and ends."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Sequence

import uvicorn
from starlette.types import ASGIApp

from semel.web.listener import Listener, http_address

__all__ = ["Server"]

#: How long requests may take to end, and the thread after them.
_LAST_REQUESTS_S, _END_S = 3, 10


class _Config(uvicorn.Config):
    """Settings with a context of TLS that is made already."""

    def __init__(self, app: ASGIApp, context: ssl.SSLContext | None) -> None:
        super().__init__(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=_LAST_REQUESTS_S,
        )
        self._context = context

    def load(self) -> None:
        """Load the application."""
        super().load()
        self.ssl = self._context


class Server:
    """Serves one application on some listeners, until it is closed or the process ends.

    ``tls`` is the context of those with TLS. They have a thread of their own.
    """

    def __init__(self, name: str, listeners: Sequence[Listener], tls: ssl.SSLContext | None = None) -> None:
        self._name, self._listeners, self._tls = name, listeners, tls
        self._sockets: list[socket.socket] = []
        self._servers: list[uvicorn.Server] = []
        self._threads: list[threading.Thread] = []

    @property
    def addresses(self) -> list[str]:
        """The addresses on which it listens."""
        there = zip(self._sockets, self._listeners, strict=True)
        taken = [(*one.getsockname()[:2], "https" if of.tls else "http") for one, of in there]
        return [http_address(host, port, scheme) for host, port, scheme in taken]

    def url(self, advertised: str, scheme: str = "http") -> str:
        """Return the address for other machines, or an empty text if it does not listen.

        ``advertised`` is ``host:port``; port 0 stands for the one that it has taken for this scheme.
        """
        taken = self._of(tls=scheme == "https")
        if not taken:
            return ""
        host, _, port = advertised.rpartition(":")
        return http_address(host, port if port != "0" else taken[0].getsockname()[1], scheme)

    def listen(self) -> None:
        """Take the ports. Raises :class:`ConfigError` for one that cannot be had."""
        self._sockets = [listener.listen() for listener in self._listeners]

    def serve(self, app: ASGIApp) -> None:
        """Answer from now on."""
        for tls in {None, self._tls}:
            sockets = self._of(tls=tls is not None)
            if not sockets:
                continue
            server = uvicorn.Server(_Config(app, tls))
            thread = threading.Thread(target=server.run, kwargs={"sockets": sockets}, name=self._name, daemon=True)
            self._servers.append(server)
            self._threads.append(thread)
            thread.start()

    def _of(self, *, tls: bool) -> list[socket.socket]:
        return [one for one, of in zip(self._sockets, self._listeners, strict=False) if of.tls is tls]

    def close(self) -> None:
        """Answer no more."""
        for server in self._servers:
            server.should_exit = True
        for thread in self._threads:
            thread.join(_END_S)
        for one in self._sockets:
            one.close()
