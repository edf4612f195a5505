"""TCP proxy between clients and Kafka that loses, delays, repeats and cuts single requests and answers (DESIGN section
5).

It understands frames (API, version, correlation id) and matches answers to requests. It works with any cluster: it
listens once for each broker that it finds, and replaces the brokers' addresses by its own in Metadata and
FindCoordinator answers (:mod:`semel.testing.proxy.addresses` has the limits). It runs in a thread of the test's
process.

    with FaultProxy(kafka.bootstrap_servers) as proxy:
        lost = proxy.drop_reply("EndTxn")           # the next EndTxn is done, but its answer is lost
        ...                                         # clients connect to proxy.bootstrap_servers
        assert lost.happened.wait(10)

TCP loses nothing in the middle of a stream, so neither does the proxy: a lost frame ends its connection, and a held
frame holds the following frames of its connection. A request that its client has sent reaches the broker even if the
client is gone by then. Not promised: TLS.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

from semel.config import parse_servers
from semel.testing.proxy.addresses import Address, addresses, replaced
from semel.testing.proxy.faults import (
    Cut,
    CutReply,
    CutRequest,
    DelayReply,
    DelayRequest,
    DropReply,
    DropRequest,
    Fault,
    Repeat,
)
from semel.testing.proxy.frames import Request, correlation_of, read_frame

__all__ = ["Fault", "FaultProxy", "SeenRequest"]

#: Seconds for the broker's answers to a client that is gone.
_LINGER_S = 5.0
_POLL_S = 0.002
_F = TypeVar("_F", bound=Fault)
_T = TypeVar("_T")


class SeenRequest(NamedTuple):
    """A request that passed. Correlation ids are each client connection's own."""

    api: str
    correlation: int


class FaultProxy:
    """The proxy; a context manager.

    In all its methods ``api`` is Kafka's name (``"EndTxn"``), ``n`` counts from now, and ``containing`` narrows to
    requests with these bytes in them. If a request meets several faults, the first one that ends its connection keeps
    the others for the next request.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self.log: list[SeenRequest] = []
        self._faults: list[Fault] = []
        self._problems: list[BaseException] = []
        self._ports: dict[Address, Address] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening = asyncio.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="semel-fault-proxy", daemon=True)
        self._thread.start()
        upstream = list(parse_servers(bootstrap_servers))
        self._run(self._listen(upstream))
        self.bootstrap_servers = ",".join("{}:{}".format(*self._ports[address]) for address in upstream)

    def __enter__(self) -> FaultProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Cut all connections and end.

        Raise an error of the proxy itself: it would make a test's result worthless.
        """
        if self._thread.is_alive():
            self._run(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        if self._problems:
            raise self._problems[0]

    # ---- faults

    def watch(self, api: str, n: int = 1, *, containing: bytes = b"") -> Fault:
        """Do nothing: ``happened`` is set when the request has come, ``finished`` when its answer has."""
        return self._add(Fault(api, n, containing))

    def drop_request(self, api: str, n: int = 1, *, containing: bytes = b"") -> Fault:
        """Lose the request: the broker never sees it, the connection ends."""
        return self._add(DropRequest(api, n, containing))

    def drop_reply(self, api: str, n: int = 1, *, containing: bytes = b"") -> Fault:
        """Lose the answer: the broker has done it, the connection ends."""
        return self._add(DropReply(api, n, containing))

    def cut(self, api: str, n: int = 1, *, reply: bool = False, containing: bytes = b"") -> Fault:
        """End the connection in the middle of the request, or in the middle of its answer."""
        return self._add((CutReply if reply else CutRequest)(api, n, containing))

    def delay_request(
        self,
        api: str,
        n: int = 1,
        *,
        seconds: float | None = None,
        until: threading.Event | None = None,
        containing: bytes = b"",
    ) -> Fault:
        """Hold the request for that long, until the event, or until :meth:`Fault.release`."""
        return self._add(DelayRequest(api, n, containing, seconds, until))

    def delay_reply(
        self,
        api: str,
        n: int = 1,
        *,
        seconds: float | None = None,
        until: threading.Event | None = None,
        containing: bytes = b"",
    ) -> Fault:
        """Hold the answer for that long, until the event, or until :meth:`Fault.release`."""
        return self._add(DelayReply(api, n, containing, seconds, until))

    def repeat_request(
        self, api: str, n: int = 1, *, times: int = 1, later: threading.Event | None = None, containing: bytes = b""
    ) -> Fault:
        """Send the same bytes ``times`` times more. The answers to them are kept from the client.

        They are sent at once on the same connection. With ``later``, each is sent on its own connection when that event
        is set (or by :meth:`Fault.release`).
        """
        return self._add(Repeat(api, n, containing, times, later))

    def withdraw(self, fault: Fault) -> None:
        """Withdraw a fault: release what it holds, and do not apply it to later requests."""
        fault.release()
        with suppress(ValueError):
            self._faults.remove(fault)

    def _add(self, fault: _F) -> _F:
        self._faults.append(fault)
        return fault

    # ---- inside the event loop

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _listen(self, upstream: list[Address]) -> None:
        async with self._listening:  # two answers may name the same new broker at once
            for address in upstream:
                if address not in self._ports:
                    server = await asyncio.start_server(partial(self._serve, address), "127.0.0.1", 0)
                    self._servers.append(server)
                    self._ports[address] = ("127.0.0.1", server.sockets[0].getsockname()[1])

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the transports that were closed last end in the loop's next round

    def _serve(self, to: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.spawn(_Link(self, reader, writer, to).run())

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine beside the connections, until it ends or the proxy does."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            self._problems.append(problem)

    def meet(self, request: Request) -> list[Fault]:
        """Return the faults that this request is for."""
        self.log.append(SeenRequest(request.api, request.correlation))
        met = [fault for fault in tuple(self._faults) if fault.counts(request)]
        for fault in met:  # each fault meets one request
            with suppress(ValueError):
                self._faults.remove(fault)
        return met

    def meet_later(self, faults: list[Fault]) -> None:
        """Keep faults for the next request if their connection ended before they took effect."""
        self._faults[:0] = [fault for fault in faults if fault.missed()]

    async def redirected(self, request: Request, answer: bytes) -> bytes:
        """Return the answer with the brokers' addresses replaced by the proxy's."""
        brokers = addresses(request.key, request.version, answer)
        if not brokers:
            return answer
        await self._listen(brokers)
        return replaced(request.key, request.version, answer, self._ports)


@dataclass(slots=True)
class _Exchange:
    """A request that the broker has not answered yet. With ``copy_of`` the client did not send it, and gets no
    answer.
    """

    request: Request
    sent_as: int
    faults: list[Fault] = field(default_factory=list)
    copy_of: Repeat | None = None


class _Link:
    """A connection of a client, and its connection to the broker."""

    def __init__(
        self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to: Address
    ) -> None:
        self._proxy = proxy
        self._client, self._to_client = reader, writer
        self._address = to
        self._waiting: deque[_Exchange] = deque()
        self._copies = 0

    async def run(self) -> None:
        try:
            self._broker, self._to_broker = await asyncio.open_connection(*self._address)
        except OSError:  # the broker is down: its client sees the same
            self._to_client.close()
            return
        pumps = [asyncio.ensure_future(self._requests()), asyncio.ensure_future(self._answers())]
        try:
            done, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in done:
                _raise_unless_expected(pump.exception())
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._to_client.close()
            self._to_broker.close()

    async def _requests(self) -> None:
        while (frame := await read_frame(self._client)) is not None:
            request = Request.read(frame)
            faults = self._proxy.meet(request)
            try:
                for fault in faults:
                    await fault.at_request(frame)
            except Cut as cut:
                self._proxy.meet_later(faults)
                await _send(self._to_broker, frame, only=cut.head)
                break
            self._waiting.append(_Exchange(request, request.correlation, faults))
            await _send(self._to_broker, frame)
            for fault in faults:
                if isinstance(fault, Repeat):
                    await self._repeat(request, fault)
        await self._linger()

    async def _linger(self) -> None:
        """Wait until the broker has answered the earlier requests, so that nothing else is lost."""
        end = asyncio.get_running_loop().time() + _LINGER_S
        while self._waiting and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(_POLL_S)

    async def _repeat(self, request: Request, fault: Repeat) -> None:
        if fault.late:
            self._proxy.spawn(_repeat_late(self._address, request, fault))
        else:
            for _ in range(fault.times):
                self._copies -= 1  # clients count upwards
                self._waiting.append(_Exchange(request, self._copies, copy_of=fault))
                await _send(self._to_broker, request.renumbered(self._copies))
        fault.happened.set()

    async def _answers(self) -> None:
        while (answer := await read_frame(self._broker)) is not None:
            exchange = self._oldest(correlation_of(answer))
            if exchange.copy_of is not None:
                exchange.copy_of.take(answer)
            else:
                try:
                    await self._answer(exchange, answer)
                except Cut as cut:
                    self._proxy.meet_later(exchange.faults)
                    await _send(self._to_client, answer, only=cut.head)
                    return
            self._waiting.popleft()

    def _oldest(self, correlation: int) -> _Exchange:
        """Return the request that was answered.

        Kafka answers in order: an older request without an answer gets none (acks=0).
        """
        while self._waiting and self._waiting[0].sent_as != correlation:
            self._waiting.popleft()
        if not self._waiting:
            raise RuntimeError(f"the broker at {self._address} answered a request {correlation} that it was not sent")
        return self._waiting[0]

    async def _answer(self, exchange: _Exchange, answer: bytes) -> None:
        for fault in exchange.faults:
            await fault.at_reply(answer)
        answer = await self._proxy.redirected(exchange.request, answer)
        try:
            await _send(self._to_client, answer)
        except ConnectionError:  # the client is gone; its requests continue
            return


async def _repeat_late(address: Address, request: Request, fault: Repeat) -> None:
    await fault.hold()
    for _ in range(fault.times):
        try:
            answer = await _ask(address, request.frame)
        except OSError:  # the broker is down: the copy is lost, as on any wire
            return
        if answer is not None:
            fault.take(answer)


async def _ask(address: Address, frame: bytes) -> bytes | None:
    reader, writer = await asyncio.open_connection(*address)
    try:
        await _send(writer, frame)
        return await read_frame(reader)
    finally:
        writer.close()


async def _send(target: asyncio.StreamWriter, frame: bytes, *, only: bytes | None = None) -> None:
    """Send a frame with its length, or only the beginning of it."""
    if only == b"":
        return
    target.write(len(frame).to_bytes(4, "big") + (frame if only is None else only))
    await target.drain()


def _raise_unless_expected(problem: BaseException | None) -> None:
    if problem is not None and not isinstance(problem, OSError):
        raise problem
