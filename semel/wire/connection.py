"""A TCP connection to one broker: frames out, frames in, in order.

Sending is scatter/gather: the record batches of a Produce request go to the socket from the buffers that they were
encoded in. Receiving reads a whole frame into one buffer of its size. Kafka answers the requests of a connection in the
order in which they were sent, so several may be under way (:meth:`Connection.send`, then :meth:`Connection.receive` as
often).

A broker that enforces a quota answers at once with a pause (``throttle_time_ms``), and reads nothing from this
connection until the pause ends. So nothing is sent in that time, and it counts for no timeout.

Not thread-safe by itself: threads that share a connection hold :attr:`Connection.lock` from the first send to the last
receive.
"""

from __future__ import annotations

import math
import select
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from kafka.protocol.metadata import ApiVersionsRequest

from semel._version import __version__
from semel.config import ClientConfig
from semel.errors import ConfigError, DataLoss, Retriable, SemelError
from semel.wire.api_versions import Versions
from semel.wire.flexible import Cursor
from semel.wire.responses import decode, response_type
from semel.wire.security import authenticate, refused, secure, send_some

__all__ = ["Buffer", "Connection", "readable"]

Buffer = bytes | bytearray | memoryview

#: A larger frame is no Kafka frame (the answer of a TLS listener or a web server, read as a length), or cannot be held.
MAX_FRAME = 1 << 30
#: Up to this size a frame's buffer is allocated before the bytes come. Requested sizes are below it unless
#: fetch.max.bytes is raised.
_TRUSTED = 64 << 20
#: Pieces that one ``sendmsg`` takes on every platform.
MAX_PIECES = 512
_RECEIVE_BUFFER = 1 << 20
_UNSUPPORTED_VERSION = 35
#: The part of a login's lifetime after which it is renewed.
_KNOWN = 0.85
#: Seconds of a broker's pause at most: a broken answer may say weeks.
_LONGEST_PAUSE = 300.0
#: The first bytes of a TLS alert, which a broker sends to a client without TLS. As the length of a frame it would be a
#: third of a gigabyte.
_TLS_ALERT = b"\x15\x03"

#: A reader of answers: called with the frame and the position of its body.
Reader = Callable[[memoryview, int], Any]


@dataclass(frozen=True, slots=True)
class _Due:
    """An answer that has not come yet, and its timeout in seconds. ``read`` is None if kafka-python reads it."""

    correlation: int
    request_type: Any
    version: int
    timeout: float
    read: Reader | None = None


class Connection:
    """An open connection, with the versions that its broker speaks."""

    def __init__(self, host: str, port: int, config: ClientConfig) -> None:
        self.address = f"{host}:{port}"
        self.lock = threading.RLock()
        self._config = config
        self._correlation = 0
        self._waiting: deque[_Due] = deque()
        self._early: deque[Any] = deque()
        self._muted_until = 0.0
        self._known_until = math.inf
        self._served = False
        self._socket = self._open(host, port)
        try:
            self.versions = self._negotiate()
            self._served = False  # a listener that wants SASL gives its versions to every client
            self._authenticate(again=False)
        except BaseException:
            self.close()
            raise

    def _open(self, host: str, port: int) -> socket.socket:
        try:
            raw = socket.create_connection((host, port), timeout=self._config.socket_connection_setup_timeout_ms / 1000)
        except OSError as error:
            raise Retriable(f"{self.address} could not be reached: {error}.", tag="CONNECTION") from None
        except UnicodeError:
            raise ConfigError(
                f"{host!r} is no name of a host. Nothing was sent to it. Correct bootstrap.servers, or the broker's"
                " advertised.listeners."
            ) from None
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        raw.settimeout(self._config.request_timeout_ms / 1000)
        return secure(raw, host, self.address, self._config)

    def _negotiate(self) -> Versions:
        request = ApiVersionsRequest(client_software_name="semel", client_software_version=__version__)
        answer = self.call(request, 4)
        # an old broker does not know version 4: it answers in version 0, which lists its versions
        if answer.error_code == _UNSUPPORTED_VERSION:
            answer = self.call(ApiVersionsRequest(), 0)
        return Versions.read(answer, self.address)

    @property
    def renewal_due(self) -> bool:
        """True if the next request must renew the login, once no answer is on its way."""
        return time.monotonic() >= self._known_until

    def _authenticate(self, *, again: bool) -> None:
        """Log in; ``again`` before the broker would end the connection (KIP-368)."""
        self._known_until = math.inf
        if self._config.security.sasl is not None:
            life = authenticate(self._config.security.sasl, self.address, self.call, again=again)
            self._known_until = math.inf if life is None else time.monotonic() + life * _KNOWN

    def call(
        self, request: Any, version: int, *, timeout: float | None = None, sent: Callable[[], None] | None = None
    ) -> Any:
        """Send one request and wait for its answer, both as kafka-python's messages.

        ``timeout`` is in seconds. ``sent`` is called between request and answer.
        """
        with self.lock:
            try:
                self.send(request, version, timeout=timeout)
                if sent is not None:
                    sent()
                return self.receive()
            except BaseException:  # an interruption leaves an answer on its way, and the next caller would read it
                self.close()
                raise

    def send(self, request: Any, version: int, *, timeout: float | None = None) -> None:
        """Encode and send one request. :meth:`receive` waits for its answer."""
        self._correlation += 1
        request.with_header(correlation_id=self._correlation, client_id=self._config.client_id)
        frame = request.encode(version=version, header=True, framed=True)
        self._send_frame([frame], _Due(self._correlation, type(request), version, self._patience(timeout)))

    def send_raw(self, body: Iterable[Buffer], request_type: Any, version: int, read: Reader | None = None) -> None:
        """Send a request of a flexible version whose body is already encoded, in pieces that are not copied.

        ``read`` replaces kafka-python for the answer, which begins with ``throttle_time_ms``. It is called with the
        frame and the position of its body, and raises ``ValueError``, ``IndexError`` or ``struct.error`` for damage.
        """
        self._correlation += 1
        pieces = [memoryview(piece).cast("B") for piece in body]
        client_id = self._config.client_id.encode()
        header = struct.pack(
            f">hhih{len(client_id)}sB", request_type.API_KEY, version, self._correlation, len(client_id), client_id, 0
        )
        size = len(header) + sum(len(piece) for piece in pieces)
        due = _Due(self._correlation, request_type, version, self._patience(None), read)
        self._send_frame([struct.pack(">i", size) + header, *pieces], due)

    def _patience(self, timeout: float | None) -> float:
        return timeout if timeout is not None else self._config.request_timeout_ms / 1000

    def _send_frame(self, pieces: list[Buffer], due: _Due) -> None:
        if self.renewal_due and not self.waiting:
            self._authenticate(again=True)
        self._take_early(0)
        if self.muted > 0:
            time.sleep(self.muted)
        self._waiting.append(due)
        try:
            self._socket.settimeout(due.timeout)
            _send_all(self._socket, pieces, lambda: self._go_on(due))
        except (OSError, ValueError) as error:  # ValueError: TLS that another thread has closed
            raise self._broken("sending to", error) from None

    @property
    def muted(self) -> float:
        """The seconds for which the broker reads nothing from this connection, as it announced."""
        return max(0.0, self._muted_until - time.monotonic())

    def _take_early(self, left: int) -> bool:
        """Take the answers that have come already, except the last ``left`` that are due: one of them may announce a
        pause. Return True if one was taken.
        """
        taken = False
        while len(self._waiting) > left and _readable(self._socket):
            self._early.append(self._take())
            taken = True
        return taken

    def _go_on(self, due: _Due) -> bool:
        """Return True if a request that does not get out is only throttled, by the answers before it."""
        went_on = self._take_early(1) or self.muted > 0
        if went_on:
            self._socket.settimeout(due.timeout + self.muted)
        return went_on

    def receive(self) -> Any:
        """Wait for the answer to the oldest request without one, and decode it."""
        return self._early.popleft() if self._early else self._take()

    def _take(self) -> Any:
        try:
            due = self._waiting.popleft()
        except IndexError:  # another thread closed the connection, with the requests under way
            raise self._broken("waiting for", OSError("it was closed here")) from None
        try:
            self._socket.settimeout(due.timeout + self.muted)
            frame = self._receive_frame()
        except (OSError, ValueError) as error:
            raise self._broken("waiting for", error) from None
        self._served = True
        return self._decode(frame, due)

    def _decode(self, frame: memoryview, due: _Due) -> Any:
        kind, version = response_type(due.request_type), due.version
        try:
            (received,) = struct.unpack_from(">i", frame)
            if received != due.correlation:
                raise ValueError(f"answer {received} came where {due.correlation} was due")
            # the header of this answer is never flexible: the client may be old
            versions_asked = due.request_type is ApiVersionsRequest
            flexible = not versions_asked and kind.flexible_version_q(version)
            start = Cursor(frame, 4).skip_tags().position if flexible else 4
            if due.read is not None:
                answer = due.read(frame, start)
                throttled = struct.unpack_from(">i", frame, start)[0]
            else:
                answer = decode(kind, frame[start:], 0 if versions_asked and _too_old(frame) else version)
                throttled = getattr(answer, "throttle_time_ms", None) or 0
        except (ValueError, IndexError, OverflowError, struct.error) as error:
            self.close()
            raise DataLoss(
                f"{self.address} sent an answer to {due.request_type.__name__} version {version} that cannot be read"
                f" ({error}). Nothing was taken from it, and the connection is closed. Is that really a Kafka"
                " listener?",
                tag="CORRUPT_ANSWER",
            ) from None
        if throttled > 0:
            self._muted_until = time.monotonic() + min(throttled / 1000, _LONGEST_PAUSE)
        return answer

    def _receive_frame(self) -> memoryview:
        head = bytearray(4)
        _receive_exactly(self._socket, memoryview(head))
        (size,) = struct.unpack(">i", head)
        if not 4 <= size <= MAX_FRAME or head.startswith(_TLS_ALERT):
            raise OSError(f"it announced a frame of {size} bytes: not a Kafka listener of this security.protocol?")
        # numpy does not zero the memory: zeroing megabytes before they are overwritten costs as much as reading them
        frame = np.empty(min(size, _TRUSTED), np.uint8)
        _receive_exactly(self._socket, frame.data)
        while len(frame) < size:  # a broker's size alone allocates no more than twice the bytes that came
            more = np.empty(min(size, 2 * len(frame)), np.uint8)
            more[: len(frame)] = frame
            _receive_exactly(self._socket, more.data[len(frame) :])
            frame = more
        return frame.data

    def _broken(self, doing: str, error: OSError | ValueError) -> SemelError:
        self.close()
        final = refused(error, self.address)
        if final is not None:
            return final
        reason = "no answer in time" if isinstance(error, TimeoutError) else str(error)
        turned_away = isinstance(error, ConnectionResetError) and not self._served
        hint = (
            " It had served nothing on it yet: does that listener want another security.protocol?"
            if turned_away
            else ""
        )
        return Retriable(f"the connection broke while {doing} {self.address}: {reason}.{hint}", tag="CONNECTION")

    @property
    def readable(self) -> bool:
        """True if :meth:`receive` finds an answer, or the beginning of one, without waiting."""
        return bool(self._early) or _readable(self._socket)

    def fileno(self) -> int:
        """Return the socket's descriptor, or a negative number once it is closed."""
        return self._socket.fileno()

    @property
    def waiting(self) -> int:
        """The number of requests without an answer, or with one that was not received yet."""
        return len(self._waiting) + len(self._early)

    @property
    def closed(self) -> bool:
        """True if the connection can no longer be used."""
        return self._socket.fileno() < 0

    def let_go(self) -> None:
        """Close the socket in this process alone: a forked child has its parent's connections, and the parent still
        uses them.
        """
        with suppress(OSError):
            self._socket.close()
        self._waiting.clear()
        self._early.clear()

    def close(self) -> None:
        """Close the socket. Answers under way are lost; it is not known whether the broker did those requests."""
        with suppress(OSError):  # wake a thread that waits in it: closing alone does not
            # not ssl's own, which ends the encryption first: a thread that is writing would continue in the clear
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._socket.close()
        self._waiting.clear()
        self._early.clear()


def readable(connections: Sequence[Connection], wait_ms: int) -> list[Connection]:
    """Wait until an answer comes on one of these connections, for ``wait_ms``. Return all on which one has come. A
    closed one counts: its answer is an error.
    """
    there = [one for one in connections if one.closed or one.readable]
    if there:
        return there
    poll = select.poll()
    by_descriptor = {one.fileno(): one for one in connections}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    return [by_descriptor[descriptor] for descriptor, _ in poll.poll(wait_ms)]


def _too_old(frame: memoryview) -> bool:
    """Return True if a broker answers that it does not know this version of ApiVersions. It answers in version 0."""
    return struct.unpack_from(">h", frame, 4) == (_UNSUPPORTED_VERSION,)


def _readable(source: socket.socket) -> bool:
    """Return True if bytes can be read without waiting."""
    if source.fileno() < 0:
        return False
    if isinstance(source, ssl.SSLSocket) and source.pending():
        return True
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(0))


def _send_all(target: socket.socket, pieces: list[Buffer], go_on: Callable[[], bool]) -> None:
    """Send all pieces. If nothing gets out in time, ``go_on`` decides whether to try again."""
    views = [memoryview(piece) for piece in pieces if len(piece)]
    first = 0
    while first < len(views):
        try:
            sent = send_some(target, views[first : first + MAX_PIECES])
        except TimeoutError:
            if not go_on():
                raise
            continue
        while first < len(views) and sent >= len(views[first]):
            sent -= len(views[first])
            first += 1
        if sent:
            views[first] = views[first][sent:]


def _receive_exactly(source: socket.socket, view: memoryview) -> None:
    while len(view):
        count = source.recv_into(view)
        if not count:
            raise ConnectionResetError("the broker closed it")
        view = view[count:]
