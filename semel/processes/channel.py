"""The driver's side of the channel: processes connect with the token of their launch, and get their work.

Each process has a WebSocket, with JSON texts both ways. A killed process is seen at once, since its connection breaks.
A frozen one is seen by unanswered pings. A silent TCP connection delays no other: each has its own thread.

From the process: ``hello`` (attempt, host, pid), ``told`` (a message for the owner), ``ask`` (a question to it),
``ended`` (how). To the process: ``run`` (version, entry, settings), ``answer``, ``stop`` (end when you can), ``end``
(end now).
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from semel._version import __version__
from semel.errors import SemelError

__all__ = ["Channel", "Ended", "Launch"]

#: without this, a refused connection would be logged with a traceback
_KNOCKS = logging.getLogger("semel.processes.websockets")
_KNOCKS.setLevel(logging.CRITICAL)
_SCHEME = "Bearer "
#: The settings of a process are one message.
_MAX_BYTES = 16 << 20
#: The close code of a connection whose pings were not answered.
_PING_TIMEOUT = 1011


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a process, as it reported it. ``error`` is empty if it ended well.

    If ``again`` is True, the same work may succeed from its beginning.
    """

    error: str = ""
    trace: str = ""
    again: bool = False


@dataclass(eq=False)
class Launch:
    """A launch of a process, over all attempts that Spark makes of its task."""

    entry: str
    settings: Mapping[str, Any]
    on_change: Callable[[], None]
    on_message: Callable[[Mapping[str, Any]], None]
    #: Answers the questions of its process. It may wait; its errors are raised in the process.
    on_ask: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _: {}
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    #: Spark's id of the newest attempt that has connected.
    attempt: int = -1
    #: ``host:pid`` while it is connected.
    where: str = ""
    #: The time of the last message, for a process that was connected and is not now.
    silent_since: float | None = None
    ended: Ended | None = None
    #: Set once the launch is not wanted any more: a process that connects from then on is ended.
    over: bool = False
    connection: ServerConnection | None = None


class Channel:
    """A listener for processes. They connect to ``host``; it listens on ``bind``."""

    def __init__(self, host: str, bind: str, silent_s: float) -> None:
        self._silent_s = silent_s
        self._lock = threading.RLock()
        self._launches: dict[str, Launch] = {}
        self._server = serve(
            self._handle,
            bind,
            0,
            process_request=self._check_token,
            ping_interval=silent_s * 0.3,
            ping_timeout=silent_s * 0.7,
            close_timeout=1,
            compression=None,
            max_size=_MAX_BYTES,
            logger=_KNOCKS,
        )
        self.address = f"{host}:{self._server.socket.getsockname()[1]}"
        threading.Thread(target=self._server.serve_forever, name="semel-channel", daemon=True).start()

    def open(self, launch: Launch) -> None:
        """Accept processes of this launch from now on."""
        with self._lock:
            self._launches[launch.token] = launch

    def stop(self, launch: Launch) -> None:
        """Ask its process to end when it can."""
        self._send(launch, "stop")

    def discard(self, launch: Launch) -> None:
        """End its process now, and every later attempt of it."""
        with self._lock:
            launch.over = True
        self._send(launch, "end")

    def forget(self, launch: Launch) -> None:
        """Refuse a process that still comes with its token."""
        self.discard(launch)
        with self._lock:
            self._launches.pop(launch.token, None)

    def close(self) -> None:
        """End every process that is still connected, and stop listening."""
        for launch in list(self._launches.values()):
            self.forget(launch)
        self._server.shutdown()

    def _send(self, launch: Launch, kind: str) -> None:
        connection = launch.connection
        if connection is not None:
            with suppress(ConnectionClosed):
                connection.send(json.dumps({"type": kind}))

    # ---- one thread for each connection

    def _check_token(self, connection: ServerConnection, request: Request) -> Response | None:
        if self._launch_of(request) is None:
            return connection.respond(HTTPStatus.UNAUTHORIZED, "no launch has this token\n")
        return None

    def _launch_of(self, request: Request | None) -> Launch | None:
        authorization = request.headers.get("Authorization", "") if request is not None else ""
        with self._lock:
            launches = list(self._launches.values())
        return next(
            (
                one
                for one in launches
                if secrets.compare_digest(authorization.encode(), f"{_SCHEME}{one.token}".encode())
            ),
            None,
        )

    def _handle(self, connection: ServerConnection) -> None:
        launch = self._launch_of(connection.request)
        if launch is None:
            return
        with suppress(ConnectionClosed, ValueError, KeyError, TypeError):
            hello = json.loads(connection.recv(self._silent_s))
            if not self._admit(launch, connection, int(hello["attempt"]), f"{hello['host']}:{int(hello['pid'])}"):
                connection.send(json.dumps({"type": "end"}))
                return
        if launch.connection is connection:
            self._serve(launch, connection)

    def _admit(self, launch: Launch, connection: ServerConnection, attempt: int, where: str) -> bool:
        """Take it for the process of its launch, unless a later attempt is there. An earlier one has to end."""
        with self._lock:
            if launch.over or launch.ended is not None or attempt < launch.attempt:
                return False
            earlier = launch.connection
            launch.attempt, launch.where, launch.silent_since, launch.connection = attempt, where, None, connection
        if earlier is not None:
            with suppress(ConnectionClosed):
                earlier.send(json.dumps({"type": "end"}))
            earlier.close()
        return True

    def _serve(self, launch: Launch, connection: ServerConnection) -> None:
        launch.on_change()
        silent = False
        try:
            work = {"type": "run", "version": __version__, "entry": launch.entry, "settings": launch.settings}
            connection.send(json.dumps(work))
            while launch.connection is connection:
                self._take(launch, connection, json.loads(connection.recv()))
        except ConnectionClosed as closed:
            silent = closed.sent is not None and closed.sent.code == _PING_TIMEOUT
        except (ValueError, KeyError, TypeError):  # its messages are not valid: treat it as lost
            connection.close()
        with self._lock:
            if launch.connection is not connection:
                return
            launch.connection, launch.where = None, ""
            launch.silent_since = time.monotonic() - (self._silent_s if silent else 0)
        launch.on_change()

    def _take(self, launch: Launch, connection: ServerConnection, message: Mapping[str, Any]) -> None:
        if message["type"] == "told":
            launch.on_message(message["message"])
        elif message["type"] == "ask":
            answer = _answer(launch, message["message"])
            connection.send(json.dumps({"type": "answer", "number": message["number"], "message": answer}))
        elif message["type"] == "ended":
            launch.ended = Ended(str(message["error"]), str(message["trace"]), bool(message["again"]))
            connection.send(json.dumps({"type": "end"}))


def _answer(launch: Launch, question: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return launch.on_ask(question)
    except SemelError as error:
        return {"error": error.message, "tag": error.tag, "class": error.kind}
