"""One request to the mirror's process, and the flow that it is about."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response

from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.mirror.config.flow_config import FlowConfig
from semel.web import calls
from semel.web.calls import Answer, answered, read_call
from semel.wire.client import Client

if TYPE_CHECKING:
    from semel.mirror.meter import FlowMeter

__all__ = ["Call", "Endpoint", "ShownFlow", "connector_name", "endpoint"]

log = logging.getLogger("semel.mirror")

_CONNECTOR = "MirrorSourceConnector"


class ShownFlow(Protocol):
    """A flow of this process: a :class:`~semel.mirror.flow.Flow`."""

    @property
    def config(self) -> FlowConfig:
        """Its settings."""

    @property
    def meter(self) -> FlowMeter:
        """Its numbers."""

    @property
    def failed(self) -> Exception | None:
        """What it has ended with."""

    def restart(self) -> None:
        """Have it take over again, or run again if it has failed."""


def connector_name(flow: FlowConfig) -> str:
    """Return the name under which REST shows a flow."""
    return f"{flow.title}.{_CONNECTOR}"


@dataclass(frozen=True, slots=True)
class Call(calls.Call):
    """One request to the mirror's process, which is known as ``worker``."""

    flows: Sequence[ShownFlow]
    worker: str

    @property
    def flow(self) -> ShownFlow:
        """The flow that it is about. Raises :class:`ConfigError` if this process does not run it."""
        for flow in self.flows:
            if connector_name(flow.config) == self.name:
                return flow
        raise ConfigError(
            f"Connector {self.name:.200} not found: this process has"
            f" {', '.join(connector_name(flow.config) for flow in self.flows)}.",
            tag="CONNECTOR_UNKNOWN",
        )

    def target(self) -> Client:
        """Return a client of the flow's target."""
        return Client(ClientConfig.parse(self.flow.config.target))

    def source(self) -> Client:
        """Return a client of the flow's source."""
        return Client(ClientConfig.parse(self.flow.config.source))


Endpoint = Callable[[Call], Answer]


def endpoint(function: Endpoint) -> Any:
    """Make a route's endpoint. The function runs on a thread of its own, because it may wait for a cluster."""

    async def answer(request: Request) -> Response:
        read = await read_call(request)
        if isinstance(read, Response):
            return read
        state = request.app.state
        call = Call(read.path, read.query, read.body, read.headers, state.flows, state.worker)
        return await run_sync(answered, function, call, log, limiter=CapacityLimiter(1))

    return answer
