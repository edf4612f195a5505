"""The life of a server: it takes its ports, answers on a thread of its own, and ends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence

import uvicorn
from starlette.types import ASGIApp

from semel.web.listener import Listener, http_address

__all__ = ["Server"]

#: How long requests may take to end, and the thread after them.
_LAST_REQUESTS_S, _END_S = 3, 10


class Server:
    """Serves one application on some listeners, until it is closed or the process ends."""

    def __init__(self, name: str, listeners: Sequence[Listener]) -> None:
        self._name, self._listeners = name, listeners
        self._sockets: list[socket.socket] = []
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def addresses(self) -> list[str]:
        """The addresses on which it listens."""
        return [http_address(*one.getsockname()[:2]) for one in self._sockets]

    def url(self, advertised: str) -> str:
        """Return the address for other machines, or an empty text if it does not listen.

        ``advertised`` is ``host:port``; port 0 stands for the one that it has taken.
        """
        if not self._sockets:
            return ""
        host, _, port = advertised.rpartition(":")
        return http_address(host, port if port != "0" else self._sockets[0].getsockname()[1])

    def listen(self) -> None:
        """Take the ports. Raises :class:`ConfigError` for one that cannot be had."""
        self._sockets = [listener.listen() for listener in self._listeners]

    def serve(self, app: ASGIApp) -> None:
        """Answer from now on."""
        if not self._sockets:
            return
        settings = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=_LAST_REQUESTS_S,
        )
        self._server = server = uvicorn.Server(settings)
        self._thread = threading.Thread(target=lambda: server.run(sockets=self._sockets), name=self._name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(_END_S)
        for one in self._sockets:
            one.close()
