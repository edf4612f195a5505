"""``/connectors/{name}/offsets``: look, set, remove (KIP-875)."""

from __future__ import annotations

from starlette.routing import Route

from semel.connect.rest.calls import Call, endpoint
from semel.web.calls import Answer
from semel.web.connector_offsets import given_offsets

__all__ = ["ROUTES"]


def _get(call: Call) -> Answer:
    return Answer(body={"offsets": call.herder.offsets(call.name)})


def _alter(call: Call) -> Answer:
    given = given_offsets(call)
    return _done("altered", call.herder.alter_offsets(call.name, given))


def _reset(call: Call) -> Answer:
    return _done("reset", call.herder.alter_offsets(call.name, None))


def _done(what: str, alone: bool) -> Answer:
    if alone:
        return Answer(body={"message": f"The offsets for this connector have been {what} successfully"})
    text = (
        f"The Connect framework-managed offsets for this connector have been {what} successfully. However, if this"
        f" connector manages offsets externally, they will need to be manually {what} in the system that the connector"
        " uses."
    )
    return Answer(body={"message": text})


ROUTES = [
    Route("/connectors/{name}/offsets", endpoint(function), methods=[method])
    for method, function in (("GET", _get), ("PATCH", _alter), ("DELETE", _reset))
]
