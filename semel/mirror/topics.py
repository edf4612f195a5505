"""The topics of a flow: found on the source, made on the target with as many partitions, grown with the source's.

A topic that is made gets the settings that were set on the source's topic itself, but for those that
``config.properties.exclude`` names; :func:`sync_configs` keeps them so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from semel.errors import ConfigError, Retriable
from semel.mirror.config.flow_config import FlowConfig
from semel.read.ranges import id_text
from semel.transaction.ticket import TicketTopic
from semel.wire.api import topics
from semel.wire.client import Client
from semel.wire.metadata import Topic

__all__ = ["MirroredTopic", "TopicPreview", "find", "follow", "preview", "sync_configs", "wants"]

log = logging.getLogger("semel.mirror")

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
    """The mirroring of a source topic that the file asks for.

    ``target`` is None where it is not mirrored, and ``what`` says why.
    """

    topic: str
    partitions: int
    target: str | None
    what: str


def preview(source: Client, target: Client, config: FlowConfig) -> list[TopicPreview]:
    """Return what would be copied where. Writes nothing."""
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
    """Return whether a source topic is mirrored, by its name."""
    return config.topics.matches(name) and config.policy.refused(name) is None


def find(source: Client, config: FlowConfig) -> dict[str, Topic]:
    """Return the topics of the source to mirror, by name."""
    found = sorted(source.refresh(None).topics.items())
    return {name: topic for name, topic in found if not topic.error and not topic.internal and wants(config, name)}


def follow(
    source: Client, target: Client, config: FlowConfig, found: Mapping[str, Topic], known: Mapping[str, MirroredTopic]
) -> dict[str, MirroredTopic]:
    """Return the found topics, each with enough partitions on the target. ``known`` are the earlier ones.

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
    try:
        settings = _wanted(source, config, topic.name)
    except ConfigError as error:
        log.warning("the topic that %s is copied to gets no settings of its own: %s", topic.name, error.message)
        settings = {}
    log.info("%s: topic %s is made, with %d partitions", config.title, name, len(topic.partitions))
    topics.create(
        target, name, partitions=len(topic.partitions), replication=config.replication_factor, config=settings
    )


def _wanted(source: Client, config: FlowConfig, name: str) -> dict[str, str]:
    """Return the settings of a source topic that its target has too."""
    return {key: value for key, value in topics.own_config(source, name).items() if _is_synced(config, key)}


def _is_synced(config: FlowConfig, key: str) -> bool:
    return not any(pattern.fullmatch(key) for pattern in config.left_out_configs)


def sync_configs(source: Client, target: Client, config: FlowConfig, mirrored: Iterable[MirroredTopic]) -> int:
    """Set on target topics what is set on their sources, and unset what is not set there. Returns how many changed.

    Without the rights it warns, and changes nothing: records are copied all the same.
    """
    changed = 0
    for topic in mirrored:
        try:
            wanted = _wanted(source, config, topic.name)
            there = {k: v for k, v in topics.own_config(target, topic.target).items() if _is_synced(config, k)}
            new = {key: value for key, value in wanted.items() if there.get(key) != value}
            gone = there.keys() - wanted.keys()
            if new or gone:
                log.info("%s: %s gets the settings %s", config.title, topic.target, sorted([*new, *gone]))
                topics.alter_config(target, topic.target, {**new, **dict.fromkeys(gone)})
                changed += 1
        except ConfigError as error:
            log.warning("%s: the settings of %s were not synced: %s", config.title, topic.target, error.message)
    return changed


def _mirrored(target: Client, topic: Topic, there: Topic, known: MirroredTopic | None) -> MirroredTopic:
    if len(there.partitions) < len(topic.partitions):
        raise Retriable(f"not all partitions of {there.name} are seen yet. Nothing was copied.")
    same = known is not None and known.ticket.id == there.id
    max_bytes = known.ticket.max_bytes if known is not None and same else _max_bytes(target, there.name)
    ticket = TicketTopic(there.id, len(there.partitions), max_bytes)
    return MirroredTopic(topic.name, id_text(topic.id), len(topic.partitions), there.name, ticket)


def _max_bytes(target: Client, name: str) -> int:
    """Return the size of the largest batch that the topic accepts.

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
