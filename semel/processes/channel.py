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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple

from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from semel._version import __version__
from semel.errors import SemelError

__all__ = ["Channel", "Ended", "Launch"]

log = logging.getLogger("semel.processes")

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


class _Told(NamedTuple):
    """A message for the owner."""

    message: Mapping[str, Any]


class _Question(NamedTuple):
    """A question to the owner, which has a number so that its answer finds it."""

    number: int
    message: Mapping[str, Any]


_Message = _Told | _Question | Ended


class _InvalidMessage(ValueError):
    """A message that no process of semel sends."""


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

    def withdraw(self, launch: Launch) -> bool:
        """Refuse processes of a launch, unless one has connected. Return True if they are refused."""
        with self._lock:
            launch.over = launch.over or launch.attempt < 0
            return launch.attempt < 0

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
        with suppress(ConnectionClosed, TimeoutError):
            try:
                attempt, where = _hello(connection.recv(self._silent_s))
            except _InvalidMessage as invalid:
                log.warning("a process that connected is refused: %s", invalid)
                return
            if not self._admit(launch, connection, attempt, where):
                connection.send(json.dumps({"type": "end"}))
                return
        if launch.connection is connection:
            try:
                self._serve(launch, connection)
            except Exception:  # of the driver's own code: the library's log, which would have it, is off
                log.exception("the driver lets the process on %s go: its own code failed", launch.where)
                raise

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
                self._take(launch, connection, _message(connection.recv()))
        except ConnectionClosed as closed:
            silent = closed.sent is not None and closed.sent.code == _PING_TIMEOUT
        except _InvalidMessage as invalid:
            log.warning("the process on %s is treated as lost: %s", launch.where, invalid)
            connection.close()
        with self._lock:
            if launch.connection is not connection:
                return
            launch.connection, launch.where = None, ""
            launch.silent_since = time.monotonic() - (self._silent_s if silent else 0)
        launch.on_change()

    def _take(self, launch: Launch, connection: ServerConnection, message: _Message) -> None:
        if isinstance(message, _Told):
            launch.on_message(message.message)
        elif isinstance(message, _Question):
            answer = _answer(launch, message.message)
            connection.send(json.dumps({"type": "answer", "number": message.number, "message": answer}))
        else:
            launch.ended = message
            connection.send(json.dumps({"type": "end"}))


def _hello(text: str | bytes) -> tuple[int, str]:
    """Return the attempt and ``host:pid`` of a process that introduces itself."""
    with _checked(text):
        hello = json.loads(text)
        return int(hello["attempt"]), f"{hello['host']}:{int(hello['pid'])}"


def _message(text: str | bytes) -> _Message:
    """Return the message of a process. Raise :class:`_InvalidMessage` for what no process of semel sends."""
    with _checked(text):
        message = json.loads(text)
        kind = message["type"]
        if kind == "ended":
            return Ended(str(message["error"]), str(message["trace"]), bool(message["again"]))
        body = message["message"]
        if not isinstance(body, Mapping) or kind not in ("told", "ask"):
            raise ValueError(f"type {kind!r} with a {type(body).__name__}")
        return _Told(body) if kind == "told" else _Question(int(message["number"]), body)


@contextmanager
def _checked(text: str | bytes) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        raise _InvalidMessage(
            f"its message is not valid ({type(error).__name__}: {error!s:.100}): {text!r:.200}"
        ) from error


def _answer(launch: Launch, question: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return launch.on_ask(question)
    except SemelError as error:
        return {"error": error.message, "tag": error.tag, "class": error.kind}
    except Exception as error:  # of the driver's own code: without an answer the process would wait for one
        log.exception("the question of the process on %s could not be answered", launch.where)
        text = f"the driver could not answer ({type(error).__name__}). Nothing was written. It is asked again."
        return {"error": text, "tag": "NO_ANSWER", "class": "Retriable"}
