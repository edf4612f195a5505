"""Positions of a flow that an operator looks at or sets (KIP-875).

MirrorMaker 2's form names the last copied offset of a source partition. Setting positions is an adoption of the topics
that are named, by offsets that count as they are: records may come again, or be left out. What groups have on the
target stays translatable, by the last records of both sides. The other topics of the flow keep their positions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from semel.errors import ConfigError
from semel.mirror.adoption.adopt import adopt
from semel.mirror.adoption.origins import Origin, Standing, Trust
from semel.mirror.adoption.plan import Plan
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.operation.wanted import FlowState, read_wanted
from semel.mirror.positions import flow_id, last_known
from semel.mirror.topic_filter import TopicFilter
from semel.mirror.topics import find, wants
from semel.read.ranges import id_text
from semel.wire.api.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["parse_offsets", "reset_positions", "set_positions", "shown_offsets"]

_NOTHING = "Nothing was changed."
_FIELDS = ("cluster", "partition", "topic")


def shown_offsets(target: Client, config: FlowConfig) -> list[dict[str, Any]]:
    """Return the last copied offset of each partition. One that is to begin at offset 0 has none."""
    source = config.policy.source
    positions = last_known(target, flow_id(source, config.policy.target))
    return [
        {"partition": {"cluster": source, "partition": index, "topic": topic}, "offset": {"offset": at.offset - 1}}
        for (topic, index), at in sorted(positions.at.items() if positions is not None else ())
        if at.offset > 0
    ]


def parse_offsets(
    config: FlowConfig, given: Sequence[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]]
) -> dict[TopicPartition, int | None]:
    """Return the next offset to copy of each partition, from MirrorMaker 2's form. None begins as a new partition.

    Raises :class:`ConfigError` for what is not of that form, or of another cluster.
    """
    wanted: dict[TopicPartition, int | None] = {}
    for partition, offset in given:
        at = _partition(config, partition or {})
        if at in wanted:
            raise _refused(f"{at[0]}-{at[1]} is named twice.")
        wanted[at] = None if offset is None else _offset(offset) + 1
    return wanted


def set_positions(
    source: Client, target: Client, config: FlowConfig, wanted: Mapping[TopicPartition, int | None]
) -> Plan:
    """Set the next offset to copy of these partitions; None begins as a new partition does. Returns what was done.

    Raises :class:`ConfigError` unless the flow is stopped, for a partition that it does not mirror, and for an offset
    that the source does not have.
    """
    _check_stopped(target, config)
    names = {topic for topic, _ in wanted}
    for topic in sorted(names):
        if not wants(config, topic):
            raise _not_mirrored(config, topic)
    named = replace(config, topics=TopicFilter(tuple(re.compile(re.escape(name)) for name in names), ()))
    named = replace(named, copies_heartbeats=False)
    there = {(name, index) for name, topic in find(source, named).items() for index in topic.partitions}
    for topic, index in sorted(wanted.keys() - there):
        raise _not_mirrored(config, f"{topic}-{index}")
    return adopt(source, target, named, _SetOrigin(wanted), replaces=True)


def reset_positions(source: Client, target: Client, config: FlowConfig, topic: str = "") -> Plan:
    """Have all topics of the flow, or one, copied from the beginning again. Raises as :func:`set_positions` does."""
    _check_stopped(target, config)
    positions = last_known(target, flow_id(config.policy.source, config.policy.target))
    at = positions.at if positions is not None else {}
    there = find(source, config)
    wanted = [p for p in at if p[0] in there and topic in ("", p[0])]
    if not wanted:
        raise ConfigError(
            f"{config.title} has no positions{f' of topic {topic!r:.250}' if topic else ''}. {_NOTHING} Nothing of it"
            " was copied yet, or it is gone from the source.",
            tag="NO_OFFSETS",
        )
    return set_positions(source, target, config, dict.fromkeys(wanted))


@dataclass(frozen=True, slots=True)
class _SetOrigin(Origin):
    """The offsets of a request. The other partitions of its topics stay where the flow has come to.

    It is asked for positions once more when the flow is fenced: until then the flow may finish a round.
    """

    wanted: Mapping[TopicPartition, int | None]

    @property
    def title(self) -> str:
        """The request."""
        return "your request"

    def positions(
        self, source: Client, target: Client, config: FlowConfig, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Standing]:
        """Return an offset of each partition that is named, and of each that the flow has a position of."""
        known = last_known(target, flow_id(config.policy.source, config.policy.target))
        rows: dict[TopicPartition, int] = {}
        if known is not None:
            topics = source.topics({topic for topic, _ in partitions})
            same = {name for name, topic in topics.items() if known.ids.get(name) == id_text(topic.id)}
            rows = {p: at.offset for p, at in known.at.items() if p in partitions and p[0] in same}
        rows |= {p: offset for p, offset in self.wanted.items() if offset is not None}
        new = [p for p, offset in self.wanted.items() if offset is None]
        if new:
            at = LATEST if config.start == "latest" else EARLIEST
            listed = list_offsets(source, dict.fromkeys(new, at), read_committed=config.read_committed)
            rows |= {partition: row.offset for partition, row in listed.items()}
        return {p: Standing(offset, self.title, Trust.CHOSEN) for p, offset in rows.items()}


def _check_stopped(target: Client, config: FlowConfig) -> None:
    if read_wanted(target, config).state is not FlowState.STOPPED:
        raise ConfigError(
            f"{config.title} must be in the STOPPED state before its offsets can be modified. {_NOTHING} Stop it:"
            " PUT /connectors/NAME/stop, or `semel mirror stop`.",
            tag="NOT_STOPPED",
        )


def _partition(config: FlowConfig, given: Mapping[str, Any]) -> TopicPartition:
    cluster, index, topic = (given.get(name) for name in _FIELDS)
    if given.keys() != set(_FIELDS) or type(index) is not int or index < 0 or not isinstance(topic, str):
        raise _refused('A partition is {"cluster": "A", "partition": 0, "topic": "orders"}.')
    if cluster != config.policy.source:
        raise _refused(f"The source of {config.title} is {config.policy.source}, and not {cluster!r:.100}.")
    return topic, index


def _offset(given: Mapping[str, Any]) -> int:
    offset = given.get("offset")
    if given.keys() != {"offset"} or type(offset) is not int or offset < 0:
        raise _refused('An offset is {"offset": 42}: the last one that counts as copied, 0 or more.')
    return offset


def _refused(reason: str) -> ConfigError:
    return ConfigError(f"{reason} {_NOTHING} GET …/offsets shows the form.", tag="REQUEST")


def _not_mirrored(config: FlowConfig, what: str) -> ConfigError:
    return ConfigError(
        f"{config.title} does not mirror {what:.250}. {_NOTHING} Name partitions of {config.policy.source} that the"
        " file asks for.",
        tag="NOT_MIRRORED",
    )
