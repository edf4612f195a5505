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
from semel.transaction.output_topics import max_message_bytes, max_message_bytes_of
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
    missing = {name: topic for name, topic in wanted.items() if remote[name] not in there}
    for name, error in _create(source, target, config, missing, remote).items():
        refused[name, WHOLE_TOPIC] = _no_place(config, name, error)
    for name, topic in wanted.items():
        existing = there.get(remote[name])
        if existing is None or len(existing.partitions) >= len(topic.partitions):
            continue
        try:
            log.info("%s: %s grows to %d partitions", config.title, remote[name], len(topic.partitions))
            topics.grow(target, remote[name], len(topic.partitions))
        except (ConfigError, Unsupported) as error:
            lacking = [(name, index) for index in range(len(existing.partitions), len(topic.partitions))]
            refused |= dict.fromkeys(lacking, _no_place(config, name, error))
    made = {name: topic for name, topic in wanted.items() if (name, WHOLE_TOPIC) not in refused}
    with names_source({(name, 0): (remote[name], 0) for name in made}):
        there = target.topics([remote[name] for name in made]) if made else {}
    limits = _limits(target, {name: there[remote[name]] for name in made}, known)
    mirrored = {name: _mirrored(topic, there[remote[name]], limits[name], refused) for name, topic in made.items()}
    return Followed(mirrored, refused)


def _no_place(config: FlowConfig, name: str, error: SemelError) -> SemelError:
    return type(error)(
        f"{name} of {config.policy.source} has no place on {config.policy.target}. {error.message} Correct that, or"
        f" leave {name} out (topics.exclude).",
        tag=error.tag,
    )


def _create(
    source: Client, target: Client, config: FlowConfig, missing: Mapping[str, Topic], remote: Mapping[str, str]
) -> dict[str, SemelError]:
    """Make the target topics of these source topics, many in a request. Return the error of each that is refused."""
    settings = topics.own_configs(source, list(missing)) if missing else {}
    new = []
    for name, topic in missing.items():
        try:
            wanted = _synced(config, settings[name])
        except ConfigError as error:
            log.warning("the topic that %s is copied to gets no settings of its own: %s", name, error.message)
            wanted = {}
        new.append(topics.NewTopic(remote[name], len(topic.partitions), config.replication_factor, wanted))
    made = topics.create_all(target, new)
    refused: dict[str, SemelError] = {}
    for name, topic in missing.items():
        found = made[remote[name]]
        if not isinstance(found, SemelError):
            log.info("%s: topic %s was made, with %d partitions", config.title, remote[name], len(topic.partitions))
        elif isinstance(found, ConfigError | Unsupported):
            refused[name] = found
        else:
            raise found
    return refused


def _synced(config: FlowConfig, found: dict[str, str] | SemelError) -> dict[str, str]:
    """Return those of a topic's settings that its target has too. Raise the error if they could not be read."""
    if isinstance(found, SemelError):
        raise found
    left_out = config.left_out_configs
    return {key: value for key, value in found.items() if not any(pattern.fullmatch(key) for pattern in left_out)}


def sync_configs(source: Client, target: Client, config: FlowConfig, mirrored: Iterable[MirroredTopic]) -> set[str]:
    """Set on target topics what is set on their sources, and unset what is not set there. Return the source topics
    whose target has changed.

    Without the rights it warns, and changes nothing: records are copied all the same.
    """
    changed: set[str] = set()
    followed = list(mirrored)
    if not followed:
        return changed
    of_source = topics.own_configs(source, [topic.name for topic in followed])
    of_target = topics.own_configs(target, [topic.target for topic in followed])
    for topic in followed:
        try:
            wanted = _synced(config, of_source[topic.name])
            there = _synced(config, of_target[topic.target])
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


def _limits(target: Client, there: Mapping[str, Topic], known: Mapping[str, MirroredTopic]) -> dict[str, int]:
    """Return the largest batch that each target topic accepts, by its source topic. That of a topic that is known
    already is not asked again.
    """
    tickets = {name: known[name].ticket for name in there.keys() & known.keys()}
    limits = {name: ticket.max_bytes for name, ticket in tickets.items() if ticket.id == there[name].id}
    unknown = {name: topic.name for name, topic in there.items() if name not in limits}
    found = max_message_bytes_of(target, list(unknown.values())) if unknown else {}
    return limits | {name: found[of_target] for name, of_target in unknown.items()}


def _mirrored(
    topic: Topic, there: Topic, max_bytes: int, refused: Mapping[TopicPartition, SemelError]
) -> MirroredTopic:
    count = sum((topic.name, index) not in refused for index in range(len(topic.partitions)))
    if len(there.partitions) < count:
        raise Retriable(f"not all partitions of {there.name} are seen yet. Nothing was copied.")
    # what a request of a producer may hold does not bound it: batches come as they are
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
