"""The topics of an application: what it reads is there and fits, and what belongs to it is made, with Kafka Streams'
names and settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from semel.errors import ConfigError, DataLoss
from semel.read.internal_topic import COMPACTED, InternalTopic
from semel.read.ranges import Range, id_text
from semel.read.row_presence import hold_rows
from semel.streams.topology.topology import Sink, SubTopology, Topology
from semel.wire.api import groups
from semel.wire.api.offsets import EARLIEST, LATEST, committed, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["Plan", "check_partitions", "prepare"]

_REPARTITION = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "retention.ms": "-1",
    "segment.bytes": "52428800",
}
_CHANGELOG = {
    **COMPACTED,
    "delete.retention.ms": "86400000",  # how long a deletion is there for a store that was away
    "message.timestamp.type": "CreateTime",
}


@dataclass(frozen=True)
class Plan:
    """The sub-topology that reads each topic, and the topic's partitions."""

    parts: Mapping[str, SubTopology]
    partitions: Mapping[str, int]
    #: Repartition topics: what was read of them is deleted.
    repartition: frozenset[str]
    #: The partitions of each topic that belongs to the application.
    internal: Mapping[str, int]


def prepare(client: Client, topology: Topology, replication: int) -> Plan:
    """Check the topics that are read, and make those of the application.

    Raises :class:`ConfigError` for topics that are missing, are not co-partitioned, or belong to another topology, and
    :class:`DataLoss` where the application has committed offsets and a topic of its own is gone.
    """
    parts = topology.sub_topologies()
    _check_same_topology(client, topology, parts)
    counts = _partitions(client, topology, parts)
    for part in parts:
        _check_co_partitioned(part, topology, counts)
    plan = Plan(
        {topology.topic(source): part for part in parts for source in part.sources},
        {topology.topic(source): counts[topology.topic(source)] for part in parts for source in part.sources},
        frozenset(topology.topic(source) for part in parts for source in part.sources if source.internal),
        _internal(topology, parts, counts),
    )
    _make(client, topology, plan, replication)
    for part in parts:
        if part.stores:
            _check_offsets_there(client, topology, part, plan)
    return plan


def _check_offsets_there(client: Client, topology: Topology, part: SubTopology, plan: Plan) -> None:
    """Check that state has offsets of the group. Without them, as after retention, rows would be counted again."""
    names = [topology.topic(source) for source in part.sources]
    read = [(name, index) for name in names for index in range(plan.partitions[name])]
    begun = {index for _, index in committed(client, topology.application_id, read, require_stable=True)}
    changelogs = client.topics({topology.changelog(spec.name) for spec in part.stores})
    new = [(name, index) for name, topic in changelogs.items() for index in topic.partitions if index not in begun]
    starts, ends = (
        list_offsets(client, dict.fromkeys(new, at), read_committed=True) if new else {} for at in (EARLIEST, LATEST)
    )
    for name, index in new:
        first, last = starts[name, index].offset, ends[name, index].offset
        there = Range(name, id_text(changelogs[name].id), index, first, last)
        if first < last and hold_rows(client, [there], read_committed=True):
            raise DataLoss(
                f"{name}-{index} has state, and group {topology.application_id!r} has no offsets of the input that it"
                " was made of: they have expired (offsets.retention.minutes), or were deleted. Nothing was read: it"
                " would be counted twice. Set the group's offsets where reading is to go on, or begin again: `semel"
                " streams reset`.",
                tag="OFFSETS_GONE",
            )


def check_partitions(client: Client, topology: Topology, plan: Plan) -> None:
    """Check that the topics of the application still fit what it reads: input topics may get partitions at any time.

    Raises :class:`ConfigError` where they do not.
    """
    inputs = {topic: count for topic, count in plan.partitions.items() if topic not in plan.internal}
    try:
        now = {topic: len(known.partitions) for topic, known in client.topics(inputs.keys()).items()}
    except ConfigError as error:
        if error.tag != "UNKNOWN_TOPIC":
            raise
        return  # reading it says what is lost
    if now == inputs:
        return
    parts = topology.sub_topologies()
    fitting = _internal(topology, parts, _partitions(client, topology, parts))
    for name, count in plan.internal.items():
        if fitting[name] != count:
            topic = next(topic for topic in sorted(inputs) if now[topic] != inputs[topic])
            raise ConfigError(
                f"topic {topic} has {now[topic]} partitions now, and had {inputs[topic]} when the worker started."
                f" {name} was made with {count}, and {fitting[name]} are needed. Nothing of this transaction is"
                " visible. (1) Begin again, which writes the output again: `semel streams reset`. (2) Read a new topic"
                " under another application.id.",
                tag="INTERNAL_TOPIC",
            )


def _internal(topology: Topology, parts: list[SubTopology], counts: Mapping[str, int]) -> dict[str, int]:
    """Return how many partitions the topics of the application need."""
    sources = {topology.topic(source) for part in parts for source in part.sources if source.internal}
    needed = {topic: counts[topic] for topic in sorted(sources)}
    for part in parts:
        tasks = max(counts[topology.topic(source)] for source in part.sources)
        needed.update({topology.changelog(spec.name): tasks for spec in part.stores})
    return needed


def _make(client: Client, topology: Topology, plan: Plan, replication: int) -> None:
    inputs = ", ".join(f"{name} has {n}" for name, n in sorted(plan.partitions.items()) if name not in plan.internal)
    advice = (
        f"Nothing was read. The input ({inputs}) has other partitions than before, or the topology or the topic has"
        " changed. Correct that, take another application.id, or begin again: `semel streams reset`."
    )
    wanted = {
        name: InternalTopic(name, f"topic {name}", advice, _REPARTITION if name in plan.repartition else _CHANGELOG)
        for name in sorted(plan.internal)
    }
    there = client.existing(wanted.keys())
    for name, known in there.items():
        wanted[name].check_partitions(known, least=plan.internal[name], most=plan.internal[name])
    for name in sorted(there.keys() - plan.repartition):
        wanted[name].check_policy(client)
    missing = sorted(wanted.keys() - there.keys())
    if missing:
        _check_new(client, topology, plan, missing)
    for name in missing:
        wanted[name].find_or_make(client, plan.internal[name], replication)


def _check_new(client: Client, topology: Topology, plan: Plan, missing: list[str]) -> None:
    """Check that the application is new. If it has run before, its missing topics have lost state and rows."""
    read: list[TopicPartition] = [(topic, index) for topic, count in plan.partitions.items() for index in range(count)]
    read = [partition for partition in read if partition[0] not in missing]
    if committed(client, topology.application_id, read, require_stable=True):
        raise DataLoss(
            f"application {topology.application_id!r} has run before, and its topics {', '.join(missing)} are gone:"
            " state, and rows on their way, are lost. Nothing was read. Begin again from the input, which writes its"
            " output again: `semel streams reset`. Is the topology new? Take another application.id.",
            tag="CHANGELOG_GONE",
        )


def _check_same_topology(client: Client, topology: Topology, parts: list[SubTopology]) -> None:
    read = {topology.topic(source) for part in parts for source in part.sources}
    known = {topic for topic, _ in groups.all_committed(client, topology.application_id)}
    others = sorted(known - read)
    if others:
        raise ConfigError(
            f"application.id {topology.application_id!r} is in use by another topology: its group has offsets of"
            f" {', '.join(others[:5])}, which this one does not read. Nothing was read. Take another id, or begin"
            " again: `semel streams reset`.",
            tag="OTHER_TOPOLOGY",
        )


def _partitions(client: Client, topology: Topology, parts: list[SubTopology]) -> dict[str, int]:
    """Return how many partitions each topic has, or will have."""
    sources = [source for part in parts for source in part.sources]
    outside = {source.topic for source in sources if not source.internal}
    outside |= {sink.topic for part in parts for sink in part.sinks if not sink.internal and sink.choose is None}
    letters = topology.handlers.errors_dead_letter_queue_topic_name
    outside |= {letters} if letters else set()
    outside |= {one.topic for one in topology.globals}
    counts = {name: len(topic.partitions) for name, topic in client.topics(outside).items()}
    sinks = {topology.topic(sink): (sink, part) for part in parts for sink in part.sinks if sink.internal}
    for _ in range(len(sinks)):
        for topic, (sink, writer) in sinks.items():
            if sink.partitions is not None:
                counts[topic] = sink.partitions
                continue
            reader = next(part for part in parts if any(topology.topic(s) == topic for s in part.sources))
            fixed = [counts[s.topic] for s in reader.sources if not s.internal] if reader.joined else []
            found = fixed or [counts[topology.topic(s)] for s in writer.sources if topology.topic(s) in counts]
            if found:
                counts[topic] = max(found)
        for part in parts:
            _make_alike(part, topology, counts)
    return counts


def _make_alike(part: SubTopology, topology: Topology, counts: dict[str, int]) -> None:
    """Give the repartition topics of a sub-topology that reads no others as many partitions as the largest of them."""
    topics = [topology.topic(source) for source in part.sources]
    if part.joined and all(source.internal for source in part.sources):
        fixed = {topology.topic(sink) for sink in _all_sinks(topology) if sink.partitions is not None}
        most = max((counts[topic] for topic in topics if topic in counts), default=0)
        counts.update({topic: most for topic in topics if topic in counts and topic not in fixed})


def _all_sinks(topology: Topology) -> list[Sink]:
    return [node for node in topology.nodes if isinstance(node, Sink) and node.internal]


def _check_co_partitioned(part: SubTopology, topology: Topology, counts: Mapping[str, int]) -> None:
    if not part.joined:
        return
    found = {topology.topic(source): counts[topology.topic(source)] for source in part.sources}
    if len(set(found.values())) > 1:
        shown = ", ".join(f"{topic} has {count}" for topic, count in sorted(found.items()))
        raise ConfigError(
            f"the topics of sub-topology {part.number} must have equally many partitions, and {shown}. Nothing was"
            " read. Put repartition() after one of the streams, or make the topics alike.",
            tag="NOT_CO_PARTITIONED",
        )
