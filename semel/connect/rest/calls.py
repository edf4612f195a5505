"""One request to a worker, which its leader answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response

from semel.connect.herder.herder import Herder
from semel.connect.rest.forwarding import ask_leader
from semel.connect.settings.worker_config import WorkerConfig
from semel.web import calls
from semel.web.answers import failed
from semel.web.calls import Answer, answered, read_call

__all__ = ["Answering", "Call", "Endpoint", "endpoint"]

log = logging.getLogger("semel.connect")

#: How long a request waits for a worker that starts: as long as Kafka Connect lets one wait.
_STARTING_S = 90.0


class Answering(Protocol):
    """The worker that answers: it leads its group, or knows who does."""

    @property
    def config(self) -> WorkerConfig:
        """The worker's settings."""

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that connectors write to."""

    @property
    def leads(self) -> bool:
        """True if its group wants it to lead."""

    @property
    def begun(self) -> threading.Event:
        """Set once it has started."""

    @property
    def ready(self) -> bool:
        """True if it answers for connectors itself."""

    @property
    def leader_url(self) -> str:
        """The leader's address, or an empty text if it is unknown."""

    @property
    def herder(self) -> Herder:
        """The operations on connectors. Raises an error if the worker does not lead."""


@dataclass(frozen=True, slots=True)
class Call(calls.Call):
    """One request to a worker."""

    worker: Answering

    @property
    def herder(self) -> Herder:
        """The operations on connectors, if this worker leads."""
        return self.worker.herder


Endpoint = Callable[[Call], Answer]


def endpoint(function: Endpoint, *, everywhere: bool = False) -> Any:
    """Make a route's endpoint. The function runs on a thread of its own, because it may wait for the cluster, or for a
    connector that blocks: there is no number of them that holds up others.

    Unless it can be answered ``everywhere``, a worker that does not lead its group has the leader answer.
    """

    async def answer(request: Request) -> Response:
        read = await read_call(request)
        if isinstance(read, Response):
            return read
        worker: Answering = request.app.state.worker
        call = Call(read.path, read.query, read.body, read.headers, worker)
        if not everywhere and not worker.begun.is_set():
            await run_sync(worker.begun.wait, _STARTING_S, limiter=CapacityLimiter(1))
            if await request.is_disconnected():  # who asked has given it up: nothing is done any more
                return Response(status_code=503)
        if everywhere or worker.ready:
            return await run_sync(answered, function, call, log, limiter=CapacityLimiter(1))
        if worker.leads:
            text = "Cannot complete request momentarily: this worker begins to lead its group. Ask again."
            return failed(409, text)
        path = request.scope.get("raw_path", request.url.path.encode()).decode().partition("?")[0]
        return await run_sync(_forwarded, request.method, path, call, limiter=CapacityLimiter(1))

    return answer


def _forwarded(method: str, path: str, call: Call) -> Response:
    made = ask_leader(
        call.worker.leader_url, method, path, call.query, call.headers, call.body, call.worker.config.rest.tls
    )
    return failed(made.status, made.problem) if made.problem else Response(made.body, made.status, made.headers)
