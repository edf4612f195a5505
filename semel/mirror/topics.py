"""The topics of a flow: found on the source, made on the target with as many partitions, grown with the source's.

A topic that is made gets the settings that were set on the source's topic itself, but for those that MirrorMaker 2
leaves out too. Not promised: that settings follow later.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from semel.errors import ConfigError, Retriable
from semel.mirror.properties import FlowConfig
from semel.read.ranges import id_text
from semel.transaction.ticket import TicketTopic
from semel.wire.api import topics
from semel.wire.client import Client
from semel.wire.metadata import Topic

__all__ = ["MirroredTopic", "TopicPreview", "find", "follow", "preview", "wants"]

log = logging.getLogger("semel.mirror")

#: Settings that a target topic does not take from its source: MirrorMaker 2's default of ``config.properties.exclude``.
_LEFT_OUT = frozenset(
    """follower.replication.throttled.replicas leader.replication.throttled.replicas message.timestamp.difference.max.ms
    message.timestamp.before.max.ms message.timestamp.after.max.ms message.timestamp.type unclean.leader.election.enable
    min.insync.replicas""".split()
)
_MAX_BYTES = "max.message.bytes"
#: The broker's default of it, where there is no right to read it.
_DEFAULT_MAX_BYTES = 1_048_588


@dataclass(frozen=True, slots=True)
class MirroredTopic:
    """A source topic, and the topic that it is copied to. ``id`` is the source's, as Kafka's tools print it."""

    name: str
    id: str
    partitions: int
    target: str
    ticket: TicketTopic


@dataclass(frozen=True, slots=True)
class TopicPreview:
    """What would become of a source topic that the file asks for.

    ``target`` is None where it is not mirrored, and ``what`` says why.
    """

    topic: str
    partitions: int
    target: str | None
    what: str


def preview(source: Client, target: Client, config: FlowConfig) -> list[TopicPreview]:
    """What would be copied where. Writes nothing."""
    found, there = source.refresh(None).topics, target.refresh(None).topics
    rows = []
    for name, topic in sorted(found.items()):
        if topic.error or topic.internal or not config.topics.matches(name):
            continue
        refused, other = config.policy.refused(name), config.policy.remote_topic(name)
        count, has = len(topic.partitions), len(there[other].partitions) if other in there else 0
        what = "is made" if not has else f"grows from {has} partitions" if has < count else "is there"
        rows.append(TopicPreview(name, count, None if refused else other, refused or what))
    return rows


def wants(config: FlowConfig, name: str) -> bool:
    """Whether a source topic is to be mirrored, by its name."""
    return config.topics.matches(name) and config.policy.refused(name) is None


def find(source: Client, config: FlowConfig) -> dict[str, Topic]:
    """The topics of the source that are to be mirrored, by name."""
    found = sorted(source.refresh(None).topics.items())
    return {name: topic for name, topic in found if not topic.error and not topic.internal and wants(config, name)}


def follow(
    source: Client, target: Client, config: FlowConfig, found: Mapping[str, Topic], known: Mapping[str, MirroredTopic]
) -> dict[str, MirroredTopic]:
    """The topics that were found, each there on the target with partitions enough. ``known`` are those from before.

    Raises :class:`ConfigError` for one that the target refuses to make, and where the identity policy would send
    records back and forth.
    """
    _check_one_way(config, found)
    remote = {name: config.policy.remote_topic(name) for name in found}
    there = target.refresh(None).topics
    for name, topic in found.items():
        existing = there.get(remote[name])
        if existing is None:
            _create(source, target, config, topic, remote[name])
        elif len(existing.partitions) < len(topic.partitions):
            log.info("%s: %s grows to %d partitions", config.title, remote[name], len(topic.partitions))
            topics.grow(target, remote[name], len(topic.partitions))
    there = target.topics(remote.values()) if remote else {}
    return {name: _mirrored(target, topic, there[remote[name]], known.get(name)) for name, topic in found.items()}


def _create(source: Client, target: Client, config: FlowConfig, topic: Topic, name: str) -> None:
    settings = {key: value for key, value in _own(source, topic.name).items() if key not in _LEFT_OUT}
    log.info("%s: topic %s is made, with %d partitions", config.title, name, len(topic.partitions))
    topics.create(
        target, name, partitions=len(topic.partitions), replication=config.replication_factor, config=settings
    )


def _own(source: Client, name: str) -> dict[str, str]:
    try:
        return topics.own_config(source, name)
    except ConfigError as error:
        log.warning("the topic that %s is copied to gets no settings of its own: %s", name, error.message)
        return {}


def _mirrored(target: Client, topic: Topic, there: Topic, known: MirroredTopic | None) -> MirroredTopic:
    if len(there.partitions) < len(topic.partitions):
        raise Retriable(f"not all partitions of {there.name} are seen yet. Nothing was copied.")
    same = known is not None and known.ticket.id == there.id
    max_bytes = known.ticket.max_bytes if known is not None and same else _max_bytes(target, there.name)
    ticket = TicketTopic(there.id, len(there.partitions), max_bytes)
    return MirroredTopic(topic.name, id_text(topic.id), len(topic.partitions), there.name, ticket)


def _max_bytes(target: Client, name: str) -> int:
    """How large a batch the topic takes.

    What a request of a producer may hold does not bound it: batches come as they are.
    """
    try:
        told = topics.topic_config(target, name, [_MAX_BYTES]).get(_MAX_BYTES)
    except ConfigError:  # no right to read it: the broker refuses what is too large, by name
        told = None
    return int(told or _DEFAULT_MAX_BYTES)


def _check_one_way(config: FlowConfig, found: Mapping[str, Topic]) -> None:
    """Topics keep their names in both directions: what comes from there would be sent back, and come again."""
    back = config.back
    both = [name for name in found if back is not None and back.matches(name)]
    if both:
        raise ConfigError(
            f"{both[0]} would be copied from {config.policy.source} to {config.policy.target} and back, under the"
            " same name, for ever: IdentityReplicationPolicy is on in both directions. Nothing was copied. Leave the"
            " topic out of one direction (topics, topics.exclude), or use DefaultReplicationPolicy.",
            tag="IDENTITY_BOTH_WAYS",
        )
