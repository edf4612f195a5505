"""Listens for REST, and serves it on a thread of its own for each listener."""

from __future__ import annotations

import errno
import socket
import threading

import uvicorn

from semel.connect.rest.app import make_app
from semel.connect.rest.calls import Answering
from semel.connect.settings.worker_config import Listener, WorkerConfig
from semel.errors import ConfigError

__all__ = ["RestServer"]

_BACKLOG = 128


class RestServer:
    """Serves what a worker can do."""

    def __init__(self, config: WorkerConfig, worker: Answering) -> None:
        self._config, self._worker = config, worker
        self._sockets: list[socket.socket] = []
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def addresses(self) -> list[str]:
        """The addresses on which it listens."""
        found = []
        for one in self._sockets:
            host, port = one.getsockname()[:2]
            found.append(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        return found

    @property
    def url(self) -> str:
        """The address for other workers, or an empty text if it does not listen."""
        if not self._sockets:
            return ""
        host, _, port = self._config.advertised.rpartition(":")
        bracketed = f"[{host}]" if ":" in host else host
        return f"http://{bracketed}:{port if port != '0' else self._sockets[0].getsockname()[1]}"

    def listen(self) -> None:
        """Take the ports. Raises :class:`ConfigError` for one that cannot be had."""
        self._sockets = [_bound(listener) for listener in self._config.listeners]

    def serve(self) -> None:
        """Answer from now on."""
        if not self._sockets:
            return
        app = make_app(self._config, self._worker)
        settings = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", server_header=False, timeout_graceful_shutdown=3
        )
        self._server = server = uvicorn.Server(settings)
        self._thread = threading.Thread(
            target=lambda: server.run(sockets=self._sockets), name="semel-connect-rest", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(10)
        for one in self._sockets:
            one.close()


def _bound(listener: Listener) -> socket.socket:
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((listener.host, listener.port))
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        why = "another program has it" if error.errno == errno.EADDRINUSE else error.strerror
        raise ConfigError(
            f"listeners=http://{listener.host}:{listener.port} cannot be listened on: {why}. Nothing was started. Stop"
            " that program, or give another address.",
            tag="LISTENER",
        ) from error
    return made
