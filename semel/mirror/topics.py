"""The topics of a flow: found on the source, made on the target with as many partitions, grown with the source's.

A topic that is made gets the settings that were set on the source's topic itself, but for those that
``config.properties.exclude`` names; :func:`sync_configs` keeps them so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from semel.errors import ConfigError, Retriable, SemelError, Unsupported
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.stops import WHOLE_TOPIC, names_source
from semel.read.ranges import id_text
from semel.transaction.output_topics import max_message_bytes
from semel.transaction.ticket import TicketTopic
from semel.wire.api import topics
from semel.wire.client import Client
from semel.wire.metadata import Topic, TopicPartition

__all__ = [
    "Followed",
    "MirroredTopic",
    "TopicPreview",
    "find",
    "follow",
    "preview",
    "sync_configs",
    "wants",
    "with_limit_read",
]

log = logging.getLogger("semel.mirror")


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
        if topic.error or topic.internal or not config.asks_for(name):
            continue
        refused, other = config.policy.refused(name), config.policy.format_remote_topic(name)
        count, has = len(topic.partitions), len(there[other].partitions) if other in there else 0
        what = "is made" if not has else f"grows from {has} partitions" if has < count else "is there"
        rows.append(TopicPreview(name, count, None if refused else other, refused or what))
    return rows


def wants(config: FlowConfig, name: str) -> bool:
    """Return whether a source topic is mirrored, by its name."""
    return config.asks_for(name) and config.policy.refused(name) is None


def find(source: Client, config: FlowConfig) -> dict[str, Topic]:
    """Return the topics of the source to mirror, by name."""
    found = sorted(source.refresh(None).topics.items())
    return {name: topic for name, topic in found if not topic.error and not topic.internal and wants(config, name)}


@dataclass(frozen=True, slots=True)
class Followed:
    """The topics that can be copied, and the error of each topic or partition for which the target refuses a place."""

    topics: dict[str, MirroredTopic]
    refused: dict[TopicPartition, SemelError]


def follow(
    source: Client, target: Client, config: FlowConfig, found: Mapping[str, Topic], known: Mapping[str, MirroredTopic]
) -> Followed:
    """Find or make the target topics of the found topics, each with enough partitions. ``known`` are the earlier ones.

    Refused are topics that the target does not make or grow, and those that the identity policy would send back and
    forth. Of a topic that does not grow, the partitions that are there can be copied.
    """
    refused: dict[TopicPartition, SemelError] = dict(_both_ways(config, found))
    wanted = {name: topic for name, topic in found.items() if (name, WHOLE_TOPIC) not in refused}
    remote = {name: config.policy.format_remote_topic(name) for name in wanted}
    there = target.refresh(None).topics
    for name, topic in wanted.items():
        existing = there.get(remote[name])
        try:
            if existing is None:
                _create(source, target, config, topic, remote[name])
            elif len(existing.partitions) < len(topic.partitions):
                log.info("%s: %s grows to %d partitions", config.title, remote[name], len(topic.partitions))
                topics.grow(target, remote[name], len(topic.partitions))
        except (ConfigError, Unsupported) as error:
            has = 0 if existing is None else len(existing.partitions)
            lacking = [(name, index) for index in range(has, len(topic.partitions))] if has else [(name, WHOLE_TOPIC)]
            refused |= dict.fromkeys(lacking, _no_place(config, name, error))
    made = {name: topic for name, topic in wanted.items() if (name, WHOLE_TOPIC) not in refused}
    with names_source({(name, 0): (remote[name], 0) for name in made}):
        there = target.topics([remote[name] for name in made]) if made else {}
    mirrored = {
        name: _mirrored(target, topic, there[remote[name]], known.get(name), refused) for name, topic in made.items()
    }
    return Followed(mirrored, refused)


def _no_place(config: FlowConfig, name: str, error: SemelError) -> SemelError:
    return type(error)(
        f"{name} of {config.policy.source} has no place on {config.policy.target}. {error.message} Correct that, or"
        f" leave {name} out (topics.exclude).",
        tag=error.tag,
    )


def _create(source: Client, target: Client, config: FlowConfig, topic: Topic, name: str) -> None:
    try:
        settings = _wanted(source, config, topic.name)
    except ConfigError as error:
        log.warning("the topic that %s is copied to gets no settings of its own: %s", topic.name, error.message)
        settings = {}
    topics.create(
        target, name, partitions=len(topic.partitions), replication=config.replication_factor, config=settings
    )
    log.info("%s: topic %s was made, with %d partitions", config.title, name, len(topic.partitions))


def _wanted(source: Client, config: FlowConfig, name: str) -> dict[str, str]:
    """Return the settings of a source topic that its target has too."""
    return {key: value for key, value in topics.own_config(source, name).items() if _is_synced(config, key)}


def _is_synced(config: FlowConfig, key: str) -> bool:
    return not any(pattern.fullmatch(key) for pattern in config.left_out_configs)


def sync_configs(source: Client, target: Client, config: FlowConfig, mirrored: Iterable[MirroredTopic]) -> set[str]:
    """Set on target topics what is set on their sources, and unset what is not set there. Return the source topics
    whose target has changed.

    Without the rights it warns, and changes nothing: records are copied all the same.
    """
    changed = set()
    for topic in mirrored:
        try:
            wanted = _wanted(source, config, topic.name)
            there = {k: v for k, v in topics.own_config(target, topic.target).items() if _is_synced(config, k)}
            new = {key: value for key, value in wanted.items() if there.get(key) != value}
            gone = there.keys() - wanted.keys()
            if new or gone:
                log.info("%s: %s gets the settings %s", config.title, topic.target, sorted([*new, *gone]))
                topics.alter_config(target, topic.target, {**new, **dict.fromkeys(gone)})
                changed.add(topic.name)
        except ConfigError as error:
            log.warning("%s: the settings of %s were not synced: %s", config.title, topic.target, error.message)
    return changed


def with_limit_read(target: Client, topic: MirroredTopic) -> MirroredTopic:
    """Return a topic with the largest batch that its target accepts now."""
    return replace(topic, ticket=replace(topic.ticket, max_bytes=max_message_bytes(target, topic.target)))


def _mirrored(
    target: Client,
    topic: Topic,
    there: Topic,
    known: MirroredTopic | None,
    refused: Mapping[TopicPartition, SemelError],
) -> MirroredTopic:
    count = sum((topic.name, index) not in refused for index in range(len(topic.partitions)))
    if len(there.partitions) < count:
        raise Retriable(f"not all partitions of {there.name} are seen yet. Nothing was copied.")
    same = known is not None and known.ticket.id == there.id
    # what a request of a producer may hold does not bound it: batches come as they are
    max_bytes = known.ticket.max_bytes if known is not None and same else max_message_bytes(target, there.name)
    ticket = TicketTopic(there.id, len(there.partitions), max_bytes)
    return MirroredTopic(topic.name, id_text(topic.id), count, there.name, ticket)


def _both_ways(config: FlowConfig, found: Iterable[str]) -> Iterator[tuple[TopicPartition, ConfigError]]:
    """Topics keep their names in both directions: what comes from there would be sent back, and come again."""
    for name in found if config.back is not None else ():
        if config.back is not None and config.back.matches(name) and not config.policy.is_heartbeats_topic(name):
            yield (
                (name, WHOLE_TOPIC),
                ConfigError(
                    f"{name} would be copied from {config.policy.source} to {config.policy.target} and back, under the"
                    " same name, for ever: IdentityReplicationPolicy is on in both directions. Nothing of it was"
                    " copied. Leave the topic out of one direction (topics, topics.exclude), or use"
                    " DefaultReplicationPolicy.",
                    tag="IDENTITY_BOTH_WAYS",
                ),
            )
