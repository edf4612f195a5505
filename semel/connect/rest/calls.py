"""One request of REST, its JSON, and the status of each error."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response

from semel.connect.herder.herder import Herder
from semel.connect.rest.forwarding import ask_leader
from semel.connect.settings.worker_config import WorkerConfig
from semel.errors import SemelError
from semel.web.answers import failed, json_answer, read_body

__all__ = ["Answer", "Answering", "BadBody", "Call", "Endpoint", "endpoint", "texts"]

log = logging.getLogger("semel.connect")

#: The status of each refusal, by its tag. What is not here is 400 where it is in the request, and else 500.
_STATUS = {
    "CONNECTOR_UNKNOWN": 404,
    "PLUGIN_UNKNOWN": 404,
    "LOGGER_UNKNOWN": 404,
    "CONNECTOR_EXISTS": 409,
    "NOT_LEADER": 409,
    "CONNECTOR_INVALID": 400,
    "REQUEST": 400,
    "NOT_STOPPED": 400,
}
#: How long a request waits for a worker that starts: as long as Kafka Connect lets one wait.
_STARTING_S = 90.0


class BadBody(ValueError):
    """A body that is no JSON, or not of the shape that it must have. Kafka Connect answers 500."""


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
class Answer:
    """An answer. Without a body nothing is sent."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    worker: Answering
    path: Mapping[str, str]
    query: Mapping[str, list[str]]
    body: bytes
    headers: Mapping[str, str]

    @property
    def herder(self) -> Herder:
        """The operations on connectors, if this worker leads."""
        return self.worker.herder

    @property
    def name(self) -> str:
        """The connector that it is about."""
        return self.path["name"]

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a parameter that is true or false."""
        return self.query.get(name, [str(default)])[-1].lower() == "true"

    def json(self, what: str) -> Any:
        """Return the body, which must be JSON. Raise :class:`BadBody` otherwise."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise BadBody(f"The body is not JSON ({error}), and a {what} is expected") from None

    def object(self, what: str, fields: Collection[str] | None = None) -> dict[str, Any]:
        """Return the body as an object with no other fields than these."""
        found = self.json(what)
        if not isinstance(found, dict):
            raise BadBody(f"Cannot deserialize value of type `{what}` from {_kind(found)} value")
        unknown = [name for name in found if fields is not None and name not in fields]
        if unknown:
            raise BadBody(f'Unrecognized field "{unknown[0]:.100}" (class {what}), not marked as ignorable')
        return found


def texts(found: object, what: str) -> dict[str, str | None]:
    """Return an object whose values are text. Numbers and booleans become text, as in Kafka Connect."""
    if not isinstance(found, dict):
        raise BadBody(f"Cannot deserialize value of type `{what}` from {_kind(found)} value")
    made: dict[str, str | None] = {}
    for name, value in found.items():
        if isinstance(value, dict | list):
            raise BadBody(f"Cannot deserialize value of type `String` from {_kind(value)} value (field {name:.100})")
        made[name] = value if value is None or isinstance(value, str) else json.dumps(value)
    return made


def _kind(value: object) -> str:
    kinds = {dict: "Object", list: "Array", str: "String", bool: "Boolean", type(None): "null"}
    return kinds.get(type(value), "Number")


Endpoint = Callable[[Call], Answer]


def endpoint(function: Endpoint, *, everywhere: bool = False) -> Any:
    """Make a route's endpoint. The function runs on a thread of its own, because it may wait for the cluster, or for a
    connector that blocks: there is no number of them that holds up others.

    Unless it can be answered ``everywhere``, a worker that does not lead its group has the leader answer.
    """

    async def answer(request: Request) -> Response:
        kind = request.headers.get("content-type", "application/json").partition(";")[0].strip()
        if request.method in ("POST", "PUT", "PATCH") and kind != "application/json":
            return failed(415, "HTTP 415 Unsupported Media Type")
        body = await read_body(request)
        if body is None:
            return failed(413, "HTTP 413 Request Entity Too Large")
        query = {name: request.query_params.getlist(name) for name in request.query_params}
        worker: Answering = request.app.state.worker
        call = Call(worker, request.path_params, query, body, request.headers)
        if not everywhere and not worker.begun.is_set():
            await run_sync(worker.begun.wait, _STARTING_S, limiter=CapacityLimiter(1))
            if await request.is_disconnected():  # who asked has given it up: nothing is done any more
                return Response(status_code=503)
        if everywhere or worker.ready:
            return await run_sync(_answered, function, call, limiter=CapacityLimiter(1))
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


def _answered(function: Endpoint, call: Call) -> Response:
    try:
        made = function(call)
    except BadBody as error:
        return failed(500, str(error))
    except SemelError as error:
        return failed(_STATUS.get(error.tag, 500), error.message)
    except Exception as error:
        log.exception("a request of REST")
        return failed(500, f"{type(error).__name__}: {error}")
    if made.body is None:
        return Response(status_code=made.status, headers=dict(made.headers or {}))
    return json_answer(made.status, made.body, made.headers)
