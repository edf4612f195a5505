"""``/connectors/{name}/offsets``: positions in MirrorMaker 2's form (KIP-875)."""

from __future__ import annotations

from starlette.routing import Route

from semel.mirror.operation.offsets import shown_offsets
from semel.mirror.rest.calls import Call, endpoint
from semel.web.calls import Answer

__all__ = ["ROUTES"]


def _get(call: Call) -> Answer:
    flow = call.flow
    with call.target() as target:
        return Answer(body={"offsets": shown_offsets(target, flow.config)})


ROUTES = [Route("/connectors/{name}/offsets", endpoint(_get), methods=["GET"])]
