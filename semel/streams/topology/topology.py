"""The graph that an application is: nodes with Kafka Streams' names, cut into sub-topologies.

Nodes are numbered in the order in which Kafka Streams numbers them, so that repartition and changelog topics get the
names that it would give. A sub-topology is what hangs together without a topic between; a task is one of them for one
partition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from semel.errors import ConfigError
from semel.serdes.serde import Serde
from semel.streams.dropped import DroppedRecords
from semel.streams.handlers import Handlers
from semel.streams.processor.stores import StoreBuilder
from semel.streams.state.state_store import StateStore, StoreSpec
from semel.streams.windows.keys import BY_START, WindowKeys

__all__ = [
    "EXTRACTORS",
    "Extractor",
    "GlobalSource",
    "Node",
    "Operator",
    "Sink",
    "Source",
    "SubTopology",
    "TaskOperator",
    "Topology",
    "check_extractor",
    "check_name",
    "check_topic",
]

#: Kafka Streams' own: fail, skip, take the highest time of the partition so far, or the machine's clock.
EXTRACTORS = (
    "FailOnInvalidTimestamp",
    "LogAndSkipOnInvalidTimestamp",
    "UsePartitionTimeOnInvalidTimestamp",
    "WallclockTimestampExtractor",
)
#: One of these, or a function of a record and the highest time of its partition so far.
Extractor = str | Callable[[Any, int], int]
#: What a node does with rows: Arrow in, Arrow out.
Operator = Callable[[Any, Mapping[str, StateStore]], Any]


class TaskOperator(Protocol):
    """The work of a node in one task, with its state in memory. ``hand_on`` takes rows while it works."""

    hand_on: Callable[[Any], None] | None
    #: Leaves out the record of a row at which it has failed, or returns False.
    leave_out: Callable[[Any, ConfigError], bool] | None
    #: The machine's clock in milliseconds.
    clock: Callable[[], int] | None
    #: Whether it stops after the row at which it first wants to be called without rows.
    stops: bool
    #: The rows from that one on, if it has stopped.
    left: Any

    def start(self, stores: Mapping[str, StateStore]) -> None:
        """Prepare it, before the first rows of its task. Called more than once."""

    @property
    def next_ms(self) -> int | None:
        """The stream time at which it wants to be called without rows, or None."""

    def punctuate(self, now: int, row: Any) -> Any:
        """Return the rows of one call at ``next_ms``, after this row of the task."""

    @property
    def next_clock_ms(self) -> int | None:
        """The time by the machine's clock at which it wants to be called, or None."""

    def punctuate_by_clock(self, now: int) -> Any:
        """Return the rows of one call at ``next_clock_ms``."""

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """Arrow in, Arrow out."""

    def close(self) -> None:
        """Release what the operator holds when its task ends."""


@dataclass(eq=False)
class Node:
    """A processor. ``operate`` is what it does; without one it hands its rows on. ``supply`` makes one for each task,
    with the stores of ``builders``.
    """

    name: str
    parents: tuple[Node, ...] = ()
    operate: Operator | None = None
    stores: tuple[StoreSpec, ...] = ()
    children: list[Node] = field(default_factory=list)
    supply: Callable[[], TaskOperator] | None = None
    #: Makes its operator for the tasks of one partition.
    of_partition: Callable[[int], Operator] | None = None
    #: Whether it calls a function for each record.
    by_record: bool = False
    #: Whether its rows have the keys of the rows that it was given.
    keeps_key: bool = False
    #: Whether it makes each row of one that it was given, and gives it that row's origin.
    keeps_origin: bool = False
    #: Whether it leaves its stores as they are.
    reads_only: bool = False
    #: The store of a global table that it reads.
    reads_global: StoreSpec | None = None
    builders: tuple[StoreBuilder, ...] = ()


@dataclass(eq=False)
class Source(Node):
    """Reads a topic. ``internal`` is a repartition topic of the application; ``unpack`` reads its values."""

    topic: str = ""
    key: Serde = None
    value: Serde = None
    internal: bool = False
    of_table: bool = False
    unpack: Callable[[Any], Any] | None = None
    #: None: the application's.
    extractor: Extractor | None = None


@dataclass(eq=False)
class Sink(Node):
    """Writes a topic. ``pack`` makes the values of a repartition topic; ``partitions`` is how many that has to have."""

    topic: str = ""
    key: Serde = None
    value: Serde = None
    internal: bool = False
    pack: Callable[[Any], Any] | None = None
    partitions: int | None = None
    #: Whether the node before it drops rows without a key, for this topic alone.
    drops_null_keys: bool = False
    #: Names the topic of each row, where a function does. ``topic`` is empty then.
    choose: Callable[[Any], list[str]] | None = None
    #: How windows are written in the keys of rows that have some.
    window_keys: WindowKeys = BY_START


@dataclass(frozen=True)
class GlobalSource:
    """A topic that each worker reads whole, into a store of its own. ``source`` and ``processor`` name its nodes."""

    source: str
    processor: str
    topic: str
    spec: StoreSpec


@dataclass(frozen=True)
class SubTopology:
    """The nodes that work together, one task a partition."""

    number: int
    nodes: tuple[Node, ...]
    #: Whether its topics must have equally many partitions.
    joined: bool = False

    @property
    def sources(self) -> list[Source]:
        """The nodes that read."""
        return [node for node in self.nodes if isinstance(node, Source)]

    @property
    def sinks(self) -> list[Sink]:
        """The nodes that write."""
        return [node for node in self.nodes if isinstance(node, Sink)]

    @property
    def by_record(self) -> bool:
        """Whether a node calls a function for each record."""
        return any(node.by_record for node in self.nodes)

    @property
    def stores(self) -> list[StoreSpec]:
        """The state, by name."""
        found = {spec.name: spec for node in self.nodes for spec in node.stores}
        return [found[name] for name in sorted(found)]


class Topology:
    """Collects nodes, and knows the names of an application's topics."""

    def __init__(self, application_id: str) -> None:
        self.application_id = application_id
        self.nodes: list[Node] = []
        self.globals: list[GlobalSource] = []
        self.dropped = DroppedRecords()
        #: Whether a batch hands on only the last update of a key, as Kafka Streams does with its cache.
        self.caching = True
        self.handlers = Handlers()
        #: For sources that name none.
        self.extractor: Extractor = EXTRACTORS[0]
        self._number = 0

    def name(self, prefix: str, named: str | None = None) -> str:
        """Return the next name: ``KSTREAM-FILTER-0000000003``. One that is ``named`` takes a number, too, so that a
        name changes no others.
        """
        self._number += 1
        return f"{prefix}{self._number - 1:010d}" if named is None else check_name(named)

    def add(self, node: Any) -> Any:
        """Take a node in, after its parents."""
        if isinstance(node, Source):
            self._check_source(node)
        if any(one.name == node.name for one in self.nodes):
            raise ConfigError(
                f"two nodes are named {node.name!r}. Nothing was read. Give each a name of its own.", tag="TOPOLOGY"
            )
        for spec in node.stores:
            self._check_store(spec, node.name)
        for parent in node.parents:
            parent.children.append(node)
        self.nodes.append(node)
        return node

    def add_global(self, node: GlobalSource) -> None:
        """Take in a topic that each worker reads whole."""
        self._check_source(Source(node.source, topic=node.topic))
        self._check_store(node.spec, node.processor)
        self.globals.append(node)

    def _check_source(self, node: Source) -> None:
        there = {self.topic(one) for one in self.nodes if isinstance(one, Source)}
        if self.topic(node) not in there | {one.topic for one in self.globals}:
            return
        if node.internal:
            raise ConfigError(
                f"two repartition topics are named {node.topic!r}. Nothing was read. Give each a name of its own, or"
                " use the stream of the first one in both places.",
                tag="TOPOLOGY",
            )
        raise ConfigError(
            f"topic {node.topic!r} is read twice, and one of the two is a table, or has other serialisations. Nothing"
            " was read. Read it once, and use that stream or table in both places.",
            tag="TOPOLOGY",
        )

    def _check_store(self, spec: StoreSpec, node: str) -> None:
        others = [other for one in self.nodes for other in one.stores if other.name == spec.name]
        others += [one.spec for one in self.globals if one.spec.name == spec.name]
        if any(other is not spec for other in others):
            raise ConfigError(
                f"two stores are named {spec.name!r}; the second one is that of {node}. Nothing was read. Give"
                " each a name of its own: it names the changelog topic.",
                tag="TOPOLOGY",
            )

    def stream_source(self, topic: str, key: Serde, value: Serde, extractor: Extractor | None) -> Source | None:
        """Return the source of another stream of the topic, with the same serdes and extractor, or None."""
        there = (one for one in self.nodes if isinstance(one, Source) and (one.topic, one.internal) == (topic, False))
        wanted = (key, value, extractor)
        found = (one for one in there if not one.of_table and (one.key, one.value, one.extractor) == wanted)
        return next(found, None)

    def topic(self, node: Source | Sink) -> str:
        """Return the topic of a node, as the cluster knows it."""
        return f"{self.application_id}-{node.topic}" if node.internal else node.topic

    def changelog(self, store: str) -> str:
        """Return the changelog topic of a store."""
        return f"{self.application_id}-{store}-changelog"

    def internal_topics(self) -> list[str]:
        """Return the names of all topics that belong to the application."""
        repartition = [self.topic(node) for node in self.nodes if isinstance(node, Source) and node.internal]
        return sorted(repartition + [self.changelog(spec.name) for one in self.sub_topologies() for spec in one.stores])

    def sub_topologies(self) -> list[SubTopology]:
        """In Kafka Streams' order: by the name of the first source. Global tables have numbers, too, and no tasks."""
        if not any(isinstance(node, Source) for node in self.nodes):
            raise ConfigError(
                f"application {self.application_id!r} reads nothing. Nothing was written. Begin with"
                ' app.stream("topic") or app.table("topic").',
                tag="TOPOLOGY",
            )
        groups: list[set[int]] = []
        place = {id(node): at for at, node in enumerate(self.nodes)}
        for at, node in enumerate(self.nodes):
            linked = {at, *(place[id(parent)] for parent in node.parents)}
            linked |= {other for other in range(at) if _share(self.nodes[other].stores, node.stores)}
            touching = [group for group in groups if group & linked]
            groups = [group for group in groups if not group & linked] + [linked.union(*touching)]
        found = [[self.nodes[at] for at in sorted(group)] for group in groups]
        found.sort(key=_first_source)
        order = sorted([*map(_first_source, found), *(one.source for one in self.globals)])
        return [SubTopology(order.index(_first_source(nodes)), tuple(nodes), _joined(nodes)) for nodes in found]

    def describe(self) -> str:
        """Return the topology as text, in Kafka Streams' form."""
        parts = {one.number: one for one in self.sub_topologies()}
        rest = iter(sorted(self.globals, key=lambda one: one.source))
        lines = ["Topologies:"]
        for number in range(len(parts) + len(self.globals)):
            if number in parts:
                lines.append(f"   Sub-topology: {number}")
                for node in parts[number].nodes:
                    lines += _described(node)
            else:
                lines.append(f"   Sub-topology: {number} for global store (will not generate tasks)")
                lines += _described_global(next(rest))
            lines.append("")
        return "\n".join(lines)


def check_extractor(extractor: Any) -> Any:
    """Return an extractor, and the name of Kafka Streams' class without its package. Raise :class:`ConfigError` for
    what is none.
    """
    known = extractor.removeprefix("org.apache.kafka.streams.processor.") if isinstance(extractor, str) else extractor
    if not callable(known) and known is not None and known not in EXTRACTORS:
        raise ConfigError(
            f"{extractor!r} is no timestamp extractor. Nothing was read. Give a function of a record and the time of"
            f" its partition, or one of {', '.join(EXTRACTORS)}.",
            tag="WRONG_VALUE",
        )
    return known


def check_name(name: Any) -> str:
    """Return a name of a node or topic. Raise :class:`ConfigError` for what Kafka does not take in one."""
    if not isinstance(name, str) or not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) or name in (".", ".."):
        raise ConfigError(
            f"{name!r} is no name for a node. Nothing was read. Use letters, digits, dots, underscores and dashes.",
            tag="TOPOLOGY",
        )
    return name


def check_topic(topic: Any) -> None:
    """Raise :class:`ConfigError` for what is no name of a topic."""
    if not isinstance(topic, str) or not topic:
        raise ConfigError(f"{topic!r} is no topic. Nothing was read. Give the name of one.", tag="TOPOLOGY")


def _share(some: Iterable[StoreSpec], others: Iterable[StoreSpec]) -> bool:
    return bool({spec.name for spec in some} & {spec.name for spec in others})


def _joined(nodes: list[Node]) -> bool:
    """Return whether each task needs the same partition of each topic: that is so with state."""
    return sum(isinstance(node, Source) for node in nodes) > 1 and any(node.stores for node in nodes)


def _first_source(nodes: list[Node]) -> str:
    return min((node.name for node in nodes if isinstance(node, Source)), default="~")


def _described_global(one: GlobalSource) -> list[str]:
    return [
        f"    Source: {one.source} (topics: [{one.topic}])",
        f"      --> {one.processor}",
        f"    Processor: {one.processor} (stores: [{one.spec.name}])",
        "      --> none",
        f"      <-- {one.source}",
    ]


def _described(node: Node) -> list[str]:
    after = ", ".join(child.name for child in node.children) or "none"
    before = ", ".join(parent.name for parent in node.parents) or "none"
    if isinstance(node, Source):
        return [f"    Source: {node.name} (topics: [{node.topic}])", f"      --> {after}"]
    if isinstance(node, Sink):
        topic = f"topic: {node.topic}" if node.choose is None else "extractor class: a function"
        return [f"    Sink: {node.name} ({topic})", f"      <-- {before}"]
    stores = ", ".join(spec.name for spec in node.stores)
    return [f"    Processor: {node.name} (stores: [{stores}])", f"      --> {after}", f"      <-- {before}"]
