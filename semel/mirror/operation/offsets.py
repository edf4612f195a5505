"""The positions of a flow in MirrorMaker 2's form: the last copied offset of each source partition (KIP-875)."""

from __future__ import annotations

from typing import Any

from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.positions import flow_id, last_known
from semel.wire.client import Client

__all__ = ["shown_offsets"]


def shown_offsets(target: Client, config: FlowConfig) -> list[dict[str, Any]]:
    """Return the last copied offset of each partition. One that is to begin at offset 0 has none."""
    source = config.policy.source
    positions = last_known(target, flow_id(source, config.policy.target))
    return [
        {"partition": {"cluster": source, "partition": index, "topic": topic}, "offset": {"offset": at.offset - 1}}
        for (topic, index), at in sorted(positions.at.items() if positions is not None else ())
        if at.offset > 0
    ]
