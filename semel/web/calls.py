"""One request of REST, its JSON, and the status of each error."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from semel.errors import SemelError
from semel.web.answers import failed, json_answer, read_body

__all__ = ["Answer", "BadBody", "Call", "answered", "read_call", "texts"]

#: The status of each refusal, by its tag. What is not here is 400 where it is in the request, and else 500.
_STATUS = {
    "CONNECTOR_UNKNOWN": 404,
    "PLUGIN_UNKNOWN": 404,
    "LOGGER_UNKNOWN": 404,
    "NOT_MIRRORED": 404,
    "CONNECTOR_EXISTS": 409,
    "NOT_LEADER": 409,
    "CONNECTOR_INVALID": 400,
    "REQUEST": 400,
    "NOT_STOPPED": 400,
    "NOT_ADOPTED": 400,
    "NO_OFFSETS": 404,
}
_C = TypeVar("_C")


class BadBody(ValueError):
    """A body that is no JSON, or not of the shape that it must have. Kafka Connect answers 500."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. Without a body nothing is sent."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    path: Mapping[str, str]
    query: Mapping[str, list[str]]
    body: bytes
    headers: Mapping[str, str]

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


async def read_call(request: Request) -> Call | Response:
    """Return a request, or the answer that refuses its body."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    if request.method in ("POST", "PUT", "PATCH") and kind != "application/json":
        return failed(415, "HTTP 415 Unsupported Media Type")
    body = await read_body(request)
    if body is None:
        return failed(413, "HTTP 413 Request Entity Too Large")
    query = {name: request.query_params.getlist(name) for name in request.query_params}
    return Call(request.path_params, query, body, request.headers)


def answered(function: Callable[[_C], Answer], call: _C, log: logging.Logger) -> Response:
    """Return the answer of a function, or that of the error which it raises."""
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
