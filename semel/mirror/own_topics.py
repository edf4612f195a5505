"""The topics that a mirror makes for itself, for `semel mirror check`: which ones the file asks for, and where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from semel.config import ClientConfig
from semel.mirror.config.flow_config import FlowConfig, HeartbeatConfig
from semel.mirror.offsets.segment_topic import SEGMENTS
from semel.mirror.policy import HEARTBEATS
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.wire.client import Client

__all__ = ["OwnTopic", "heartbeat_topics", "own_topics"]

_MADE, _THERE, _MADE_LATER = "is made", "is there", "is made when something is written to it"


@dataclass(frozen=True, slots=True)
class OwnTopic:
    """A topic that a mirror makes for itself on the cluster of an alias."""

    name: str
    alias: str
    holds: str
    what: str


def own_topics(source: Client, target: Client, config: FlowConfig) -> list[OwnTopic]:
    """Return the topics that a flow makes for itself. Writes nothing."""
    policy = config.policy
    on_target = {DEFAULT_TOPIC: ("positions", _MADE), SEGMENTS: ("offsets of copied records", _MADE)}
    if config.checkpoints_s > 0:
        on_target[policy.checkpoints_topic] = "checkpoints of groups", _MADE_LATER
    found = _compared(target, policy.target, on_target)
    if config.offset_syncs is not None:
        on_source = config.offset_syncs.on_source
        client, alias = (source, policy.source) if on_source else (target, policy.target)
        topic = policy.offset_syncs_topic(on_source=on_source)
        found += _compared(client, alias, {topic: ("offset syncs", _MADE_LATER)})
    return found


def heartbeat_topics(pairs: Iterable[HeartbeatConfig]) -> list[OwnTopic]:
    """Return the topics of heartbeats, one on each cluster to which some are written. Writes nothing."""
    found: list[OwnTopic] = []
    for alias, settings in {pair.target: pair.client for pair in pairs}.items():
        with Client(ClientConfig.parse(settings)) as client:
            found += _compared(client, alias, {HEARTBEATS: ("heartbeats", _MADE)})
    return found


def _compared(client: Client, alias: str, wanted: dict[str, tuple[str, str]]) -> list[OwnTopic]:
    there = client.existing(wanted)
    return [
        OwnTopic(name, alias, holds, _THERE if name in there else otherwise)
        for name, (holds, otherwise) in wanted.items()
    ]
