"""What a proxy does to a request or its answer, and the handles by which a test waits for it.

A fault is chosen when its request arrives: the ``n``-th of its API, counted from when the fault was set up, over all
connections. Only the event loop of the proxy calls the methods that begin with ``at_``; tests use the rest.
"""

from __future__ import annotations

import asyncio
import threading
import time

from semel.testing.proxy.frames import Request, api_key

__all__ = ["Cut", "CutReply", "CutRequest", "DelayReply", "DelayRequest", "DropReply", "DropRequest", "Fault", "Repeat"]

_POLL_S = 0.002


class Cut(Exception):  # a signal between a fault and its connection, no error
    """The connection must end now, after these bytes of the frame."""

    def __init__(self, head: bytes = b"") -> None:
        self.head = head
        super().__init__("cut")


class Fault:
    """One fault at one request. This class itself does nothing but see it.

    - ``happened`` is set when the fault takes effect: a frame was lost, is held, was repeated;
    - ``finished`` is set when nothing more will come of it: the broker has answered what was held or repeated. It is
      not set if the connection broke before;
    - ``answers``: what the broker answered to the request and to its repetitions, each without the correlation id.
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
        """Let go of what is held."""
        self._released.set()

    def counts(self, request: Request) -> bool:
        """Count the request if it is of this fault's kind, and say whether it is the one."""
        if request.key != self._key or self._containing not in request.frame:
            return False
        self._left -= 1
        return self._left == 0

    def missed(self) -> bool:
        """Whether the connection ended before it took effect, and it is still wanted: then it is for the next
        request.
        """
        self._left = 1
        return not self.happened.is_set() and not self._released.is_set()

    async def at_request(self, frame: bytes) -> None:
        """Before the request goes to the broker. May wait, or raise :class:`Cut`."""
        self.happened.set()

    async def at_reply(self, answer: bytes) -> None:
        """Before the answer goes to the client. May wait, or raise :class:`Cut`."""
        self.take(answer)
        self.finished.set()

    def take(self, answer: bytes) -> None:
        """Keep an answer of the broker."""
        self.answers.append(answer[4:])


class _Held(Fault):
    """A fault that holds something until a time has passed, an event is set, or it is released."""

    def __init__(
        self, api: str, n: int, containing: bytes, seconds: float | None, until: threading.Event | None
    ) -> None:
        super().__init__(api, n, containing)
        self._seconds = seconds
        self._until = until

    async def hold(self) -> None:
        """Wait as was asked; for ever if nothing was asked and nobody releases."""
        end = float("inf") if self._seconds is None else time.monotonic() + self._seconds
        while not self._released.is_set() and not (self._until and self._until.is_set()) and time.monotonic() < end:
            await asyncio.sleep(_POLL_S)


class DropRequest(Fault):
    """The broker never sees the request; the connection ends."""

    async def at_request(self, frame: bytes) -> None:
        """Take effect."""
        self.happened.set()
        self.finished.set()
        raise Cut


class DropReply(Fault):
    """The broker has done and answered it, and the client never hears of it; the connection ends."""

    async def at_request(self, frame: bytes) -> None:
        """Let it pass."""

    async def at_reply(self, answer: bytes) -> None:
        """Take effect."""
        await super().at_reply(answer)
        self.happened.set()
        raise Cut


class CutRequest(Fault):
    """The connection ends when half of the request has reached the broker."""

    async def at_request(self, frame: bytes) -> None:
        """Take effect."""
        self.happened.set()
        self.finished.set()
        raise Cut(frame[: len(frame) // 2])


class CutReply(Fault):
    """The connection ends when half of the answer has reached the client."""

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
    """The broker gets the same bytes again, at once on the same connection, or held back and then on one of its own."""

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
        """Keep an answer, which may be the last that is due."""
        super().take(answer)
        if len(self.answers) == self.times + 1:
            self.finished.set()
