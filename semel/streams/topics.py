"""The topics of an application: what it reads is there and fits, and what belongs to it is made, with Kafka Streams'
names and settings.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from semel.errors import ConfigError, DataLoss
from semel.read.internal_topic import COMPACTED, InternalTopic
from semel.read.matching import find_topics
from semel.read.ranges import Range, id_text
from semel.read.row_presence import hold_rows
from semel.streams.topology.node import Sink, Source, SubTopology
from semel.streams.topology.topology import Topology
from semel.wire.api import groups
from semel.wire.api.offsets import EARLIEST, LATEST, committed, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["Plan", "check_partitions", "prepare", "prepare_for"]

#: The topics that each sub-topology reads, by its number, each with its source.
Reads = Mapping[int, Mapping[str, Source]]

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
    #: All sub-topologies, also those whose patterns find no topic yet.
    all_parts: Sequence[SubTopology]
    #: The topics that patterns find.
    matched: frozenset[str]
    #: Repartition topics, those that are not made yet among them: what was read of them is deleted.
    repartition: frozenset[str]
    #: The partitions of each topic that belongs to the application.
    internal: Mapping[str, int]


def prepare(client: Client, topology: Topology, replication: int) -> Plan:
    """Check the topics that are read, and make those of the application.

    Raises :class:`ConfigError` for topics that are missing, are not co-partitioned, or belong to another topology, and
    :class:`DataLoss` where the application has committed offsets and a topic of its own is gone.
    """
    found = find_topics(client, topology.matches) if topology.patterns else frozenset()
    reads = _reads(topology, found)
    _check_same_topology(client, topology, reads)
    plan = prepare_for(client, topology, replication, found)
    for part in plan.all_parts:
        if part.stores and reads[part.number]:
            _check_offsets_there(client, topology, part, plan)
    return plan


def prepare_for(client: Client, topology: Topology, replication: int, matched: Collection[str]) -> Plan:
    """Return the plan for these topics that patterns find, and make the topics that it needs: in a worker that runs,
    whose group's offsets are known to be there.

    Raises what :func:`prepare` raises.
    """
    reads = _reads(topology, matched)
    counts = _partitions(client, topology, reads)
    parts = topology.sub_topologies()
    for part in parts:
        _check_co_partitioned(part, reads[part.number], counts)
    there = {topic: part for part in parts for topic in reads[part.number] if topic in counts}
    plan = Plan(
        there,
        {topic: counts[topic] for topic in there},
        parts,
        frozenset(matched),
        frozenset(topology.topic(source) for part in parts for source in part.sources if source.internal),
        _internal(topology, reads, counts),
    )
    _make(client, topology, plan, replication)
    return plan


def _reads(topology: Topology, matched: Collection[str]) -> Reads:
    return {part.number: topology.inputs(part, matched) for part in topology.sub_topologies()}


def _check_offsets_there(client: Client, topology: Topology, part: SubTopology, plan: Plan) -> None:
    """Check that state has offsets of the group. Without them, as after retention, rows would be counted again."""
    names = [name for name, reader in plan.parts.items() if reader.number == part.number]
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
    reads = _reads(topology, plan.matched)
    fitting = _internal(topology, reads, _partitions(client, topology, reads))
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


def _internal(topology: Topology, reads: Reads, counts: Mapping[str, int]) -> dict[str, int]:
    """Return how many partitions the topics of the application need. A sub-topology without topics needs none yet."""
    sources = {topic for inputs in reads.values() for topic, source in inputs.items() if source.internal}
    needed = {topic: counts[topic] for topic in sorted(sources) if topic in counts}
    for part in topology.sub_topologies():
        tasks = max((counts[topic] for topic in reads[part.number] if topic in counts), default=0)
        needed.update({topology.changelog(spec.name): tasks for spec in part.stores if tasks})
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
    if topology.patterns:  # a sub-topology begins when the first topic is there that its pattern finds
        touching = _touching(topology, plan, missing)
        read = [partition for partition in read if plan.parts[partition[0]].number in touching]
    if read and committed(client, topology.application_id, read, require_stable=True):
        raise DataLoss(
            f"application {topology.application_id!r} has run before, and its topics {', '.join(missing)} are gone:"
            " state, and rows on their way, are lost. Nothing was read. Begin again from the input, which writes its"
            " output again: `semel streams reset`. Is the topology new? Take another application.id.",
            tag="CHANGELOG_GONE",
        )


def _touching(topology: Topology, plan: Plan, internal: Collection[str]) -> set[int]:
    """Return the numbers of the sub-topologies that write one of these topics."""
    return {
        part.number
        for part in plan.all_parts
        if {topology.topic(sink) for sink in part.sinks if sink.internal} & set(internal)
        or {topology.changelog(spec.name) for spec in part.stores} & set(internal)
    }


def _check_same_topology(client: Client, topology: Topology, reads: Reads) -> None:
    read = {topic for inputs in reads.values() for topic in inputs}
    known = {topic for topic, _ in groups.all_committed(client, topology.application_id)}
    others = sorted(topic for topic in known - read if not topology.matches(topic))
    if others:
        raise ConfigError(
            f"application.id {topology.application_id!r} is in use by another topology: its group has offsets of"
            f" {', '.join(others[:5])}, which this one does not read. Nothing was read. Take another id, or begin"
            " again: `semel streams reset`.",
            tag="OTHER_TOPOLOGY",
        )


def _partitions(client: Client, topology: Topology, reads: Reads) -> dict[str, int]:
    """Return how many partitions each topic has, or will have. Those after a pattern without topics are left out."""
    parts = topology.sub_topologies()
    outside = {topic for inputs in reads.values() for topic, source in inputs.items() if not source.internal}
    outside |= {sink.topic for part in parts for sink in part.sinks if not sink.internal and sink.choose is None}
    letters = topology.handlers.errors_dead_letter_queue_topic_name
    outside |= {letters} if letters else set()
    outside |= {one.topic for one in topology.globals}
    counts = {name: len(topic.partitions) for name, topic in client.topics(outside).items()}
    sinks = {topology.topic(sink): (sink, part) for part in parts for sink in part.sinks if sink.internal}
    made = _made(client, topology, sinks)
    counts |= made
    for _ in range(len(sinks)):
        for topic, (sink, writer) in sinks.items():
            if topic in made:
                continue
            if sink.partitions is not None:
                counts[topic] = sink.partitions
                continue
            reader = next(part for part in parts if topic in reads[part.number])
            inputs = reads[reader.number].items()
            fixed = [counts[name] for name, source in inputs if not source.internal] if reader.joined else []
            found = fixed or [counts[name] for name in reads[writer.number] if name in counts]
            if found:
                counts[topic] = max(found)
        for part in parts:
            _make_alike(part, topology, counts, made)
    return counts


def _made(client: Client, topology: Topology, sinks: Mapping[str, tuple[Sink, SubTopology]]) -> dict[str, int]:
    """Return the partitions of the repartition topics that are there, in an application with patterns: what these find
    comes and goes, and keys stay where they are.
    """
    if not topology.patterns:
        return {}
    chosen = {topic for topic, (sink, _) in sinks.items() if sink.partitions is None}
    return {name: len(topic.partitions) for name, topic in client.existing(chosen).items()}


def _make_alike(part: SubTopology, topology: Topology, counts: dict[str, int], made: Mapping[str, int]) -> None:
    """Give the repartition topics of a sub-topology that reads no others as many partitions as the largest of them, or
    of those that are ``made``.
    """
    topics = [topology.topic(source) for source in part.sources]
    if part.joined and all(source.internal for source in part.sources):
        fixed = {topology.topic(sink) for sink in _all_sinks(topology) if sink.partitions is not None} | made.keys()
        there = [topic for topic in topics if topic in counts]
        most = max((counts[topic] for topic in [one for one in there if one in made] or there), default=0)
        counts.update({topic: most for topic in there if topic not in fixed})


def _all_sinks(topology: Topology) -> list[Sink]:
    return [node for node in topology.nodes if isinstance(node, Sink) and node.internal]


def _check_co_partitioned(part: SubTopology, inputs: Collection[str], counts: Mapping[str, int]) -> None:
    if not part.joined:
        return
    found = {topic: counts[topic] for topic in inputs if topic in counts}
    if len(set(found.values())) > 1:
        shown = ", ".join(f"{topic} has {count}" for topic, count in sorted(found.items()))
        raise ConfigError(
            f"the topics of sub-topology {part.number} must have equally many partitions, and {shown}. Nothing more"
            " is read; what was committed stays. Put repartition() after one of the streams, make the topics alike, or"
            " delete the one that does not fit.",
            tag="NOT_CO_PARTITIONED",
        )
