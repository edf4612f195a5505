"""A TCP proxy in front of PostgreSQL that loses one COMMIT: before it arrives, or with its answer."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Literal

__all__ = ["CommitProxy"]

Loses = Literal["request", "answer"]


class CommitProxy:
    """Forwards what comes to ``port``; once :meth:`arm` was called, the next COMMIT ends its connection."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._loses: Loses | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> CommitProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def arm(self, loses: Loses) -> None:
        self._loses = loses

    @property
    def armed(self) -> bool:
        return self._loses is not None

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            answers = threading.Event()
            answers.set()
            threading.Thread(target=self._forward, args=(client, server, answers), daemon=True).start()
            threading.Thread(target=self._back, args=(server, client, answers), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket, answers: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if self._loses is not None and b"COMMIT" in data:
                    loses, self._loses = self._loses, None
                    answers.clear()
                    if loses == "answer":
                        server.sendall(data)
                        server.recv(65536)  # it is done there
                    break
                server.sendall(data)
        _close(client, server)

    def _back(self, server: socket.socket, client: socket.socket, answers: threading.Event) -> None:
        with suppress(OSError):
            while answers.is_set() and (data := server.recv(65536, socket.MSG_PEEK)):
                if not answers.is_set():
                    return  # the other thread takes it
                client.sendall(server.recv(len(data)))
        if answers.is_set():
            _close(client, server)


def _close(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
