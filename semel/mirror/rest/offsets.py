"""``/connectors/{name}/offsets``: positions in MirrorMaker 2's form (KIP-875)."""

from __future__ import annotations

from starlette.routing import Route

from semel.mirror.operation.offsets import parse_offsets, reset_positions, set_positions, shown_offsets
from semel.mirror.rest.calls import Call, endpoint
from semel.web.calls import Answer
from semel.web.connector_offsets import given_offsets

__all__ = ["ROUTES"]


def _get(call: Call) -> Answer:
    flow = call.flow
    with call.target() as target:
        return Answer(body={"offsets": shown_offsets(target, flow.config)})


def _alter(call: Call) -> Answer:
    config = call.flow.config
    wanted = parse_offsets(config, given_offsets(call))
    with call.source() as source, call.target() as target:
        set_positions(source, target, config, wanted)
    return Answer(body={"message": "The offsets for this connector have been altered successfully"})


def _reset(call: Call) -> Answer:
    config = call.flow.config
    with call.source() as source, call.target() as target:
        reset_positions(source, target, config)
    return Answer(body={"message": "The offsets for this connector have been reset successfully"})


ROUTES = [
    Route("/connectors/{name}/offsets", endpoint(function), methods=[method])
    for method, function in (("GET", _get), ("PATCH", _alter), ("DELETE", _reset))
]
