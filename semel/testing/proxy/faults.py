"""Faults that a proxy applies to a request or its answer, and the handles by which a test waits for them.

A fault is chosen when its request arrives: the ``n``-th of its API since the fault was set up, over all connections.
Only the event loop of the proxy calls the methods that begin with ``at_``; tests use the rest.
"""

from __future__ import annotations

import asyncio
import threading
import time

from semel.testing.proxy.frames import Request, api_key

__all__ = ["Cut", "CutReply", "CutRequest", "DelayReply", "DelayRequest", "DropReply", "DropRequest", "Fault", "Repeat"]

_POLL_S = 0.002


class Cut(Exception):  # a signal between a fault and its connection, not an error
    """The connection must end now, after these bytes of the frame."""

    def __init__(self, head: bytes = b"") -> None:
        self.head = head
        super().__init__("cut")


class Fault:
    """A fault at one request. This class itself only observes it.

    - ``happened`` is set when the fault takes effect: a frame was lost, is held, was repeated;
    - ``finished`` is set when the fault is over: the broker has answered the held or repeated request. It is not set if
      the connection broke before;
    - ``answers``: the broker's answers to the request and to its repetitions, each without the correlation id.
    """

    def __init__(self, api: str, n: int, containing: bytes = b"") -> None:
        if n < 1:
            raise ValueError(f"n={n}: the first request is number 1")
        self.happened = threading.Event()
        self.finished = threading.Event()
        self.answers: list[bytes] = []
        self._key = api_key(api)
        self._left = n
        self._containing = containing
        self._released = threading.Event()
        self._text = f"{type(self).__name__}({api}, {n})"

    def __str__(self) -> str:
        return self._text

    def release(self) -> None:
        """Release the held frame."""
        self._released.set()

    def counts(self, request: Request) -> bool:
        """Count the request if it is of this fault's kind. Return True if it is the chosen one."""
        if request.key != self._key or self._containing not in request.frame:
            return False
        self._left -= 1
        return self._left == 0

    def missed(self) -> bool:
        """Return True if the connection ended before the fault took effect, and it is still wanted: then it is for the
        next request.
        """
        self._left = 1
        return not self.happened.is_set() and not self._released.is_set()

    async def at_request(self, frame: bytes) -> None:
        """Act before the request goes to the broker. May wait, or raise :class:`Cut`."""
        self.happened.set()

    async def at_reply(self, answer: bytes) -> None:
        """Act before the answer goes to the client. May wait, or raise :class:`Cut`."""
        self.take(answer)
        self.finished.set()

    def take(self, answer: bytes) -> None:
        """Keep an answer of the broker."""
        self.answers.append(answer[4:])


class _Held(Fault):
    """A fault that holds a frame until a time has passed, an event is set, or it is released."""

    def __init__(
        self, api: str, n: int, containing: bytes, seconds: float | None, until: threading.Event | None
    ) -> None:
        super().__init__(api, n, containing)
        self._seconds = seconds
        self._until = until

    async def hold(self) -> None:
        """Wait for the given time or event. Without either, wait until the release."""
        end = float("inf") if self._seconds is None else time.monotonic() + self._seconds
        while not self._released.is_set() and not (self._until and self._until.is_set()) and time.monotonic() < end:
            await asyncio.sleep(_POLL_S)


class DropRequest(Fault):
    """A lost request: the broker never sees it, and the connection ends."""

    async def at_request(self, frame: bytes) -> None:
        """Take effect."""
        self.happened.set()
        self.finished.set()
        raise Cut


class DropReply(Fault):
    """A lost answer: the broker has done the request, the client never sees the answer, and the connection ends."""

    async def at_request(self, frame: bytes) -> None:
        """Let it pass."""

    async def at_reply(self, answer: bytes) -> None:
        """Take effect."""
        await super().at_reply(answer)
        self.happened.set()
        raise Cut


class CutRequest(Fault):
    """A connection that ends when half of the request has reached the broker."""

    async def at_request(self, frame: bytes) -> None:
        """Take effect."""
        self.happened.set()
        self.finished.set()
        raise Cut(frame[: len(frame) // 2])


class CutReply(Fault):
    """A connection that ends when half of the answer has reached the client."""

    async def at_request(self, frame: bytes) -> None:
        """Let it pass."""

    async def at_reply(self, answer: bytes) -> None:
        """Take effect."""
        await super().at_reply(answer)
        self.happened.set()
        raise Cut(answer[: len(answer) // 2])


class DelayRequest(_Held):
    """The request waits before the broker, also when its client has given up by then."""

    async def at_request(self, frame: bytes) -> None:
        """Take effect."""
        self.happened.set()
        await self.hold()


class DelayReply(_Held):
    """The broker has done it, and the answer waits before the client."""

    async def at_request(self, frame: bytes) -> None:
        """Let it pass."""

    async def at_reply(self, answer: bytes) -> None:
        """Take effect."""
        self.take(answer)
        self.happened.set()
        await self.hold()
        self.finished.set()


class Repeat(_Held):
    """A request that the broker gets again: at once on the same connection, or later on its own connection."""

    def __init__(self, api: str, n: int, containing: bytes, times: int, later: threading.Event | None) -> None:
        super().__init__(api, n, containing, None, later)
        self.times = times
        self.late = later is not None

    async def at_request(self, frame: bytes) -> None:
        """Let it pass: the copies follow it."""

    async def at_reply(self, answer: bytes) -> None:
        """Keep it, and let it pass."""
        self.take(answer)

    def take(self, answer: bytes) -> None:
        """Keep an answer, which may be the last one."""
        super().take(answer)
        if len(self.answers) == self.times + 1:
            self.finished.set()
