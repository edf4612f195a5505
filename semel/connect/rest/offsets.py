"""``/connectors/{name}/offsets``: look, set, remove (KIP-875)."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from semel.connect.rest.calls import Answer, BadBody, Call, endpoint
from semel.errors import ConfigError

__all__ = ["ROUTES"]

_BODY = "ConnectorOffsets"


def _get(call: Call) -> Answer:
    return Answer(body={"offsets": call.herder.offsets(call.name)})


def _alter(call: Call) -> Answer:
    given = call.object(_BODY, ("offsets",)).get("offsets")
    if not (given is None or isinstance(given, list)):
        raise BadBody(f"Cannot deserialize value of type `List` from the field offsets (class {_BODY})")
    if not given:
        raise ConfigError("Partitions / offsets need to be provided for an alter offsets request.", tag="REQUEST")
    alone = call.herder.alter_offsets(call.name, [_offset(one) for one in given])
    return _done("altered", alone)


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


def _offset(given: object) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    if not isinstance(given, dict) or not given.keys() <= {"partition", "offset"}:
        raise BadBody(f"An entry of offsets has other fields than partition and offset (class {_BODY})")
    partition, offset = given.get("partition"), given.get("offset")
    if not (partition is None or isinstance(partition, dict)) or not (offset is None or isinstance(offset, dict)):
        raise BadBody(f"partition and offset must be objects (class {_BODY})")
    return partition, offset


ROUTES = [
    Route("/connectors/{name}/offsets", endpoint(function), methods=[method])
    for method, function in (("GET", _get), ("PATCH", _alter), ("DELETE", _reset))
]
