"""The nodes of a topology, and the sub-topologies that they form: what works together, one task a partition."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from semel.errors import ConfigError
from semel.serdes.serde import Serde
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
    "described",
    "described_global",
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
    """Reads a topic, or all topics whose whole name fits a ``pattern``. ``internal`` is a repartition topic of the
    application; ``unpack`` reads its values.
    """

    topic: str = ""
    pattern: re.Pattern[str] | None = None
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


def described_global(one: GlobalSource) -> list[str]:
    """Return the lines of a global table in a description."""
    return [
        f"    Source: {one.source} (topics: [{one.topic}])",
        f"      --> {one.processor}",
        f"    Processor: {one.processor} (stores: [{one.spec.name}])",
        "      --> none",
        f"      <-- {one.source}",
    ]


def described(node: Node) -> list[str]:
    """Return the lines of a node in a description, in Kafka Streams' form."""
    after = ", ".join(child.name for child in node.children) or "none"
    before = ", ".join(parent.name for parent in node.parents) or "none"
    if isinstance(node, Source):
        read = f"[{node.topic}]" if node.pattern is None else node.pattern.pattern
        return [f"    Source: {node.name} (topics: {read})", f"      --> {after}"]
    if isinstance(node, Sink):
        topic = f"topic: {node.topic}" if node.choose is None else "extractor class: a function"
        return [f"    Sink: {node.name} ({topic})", f"      <-- {before}"]
    stores = ", ".join(spec.name for spec in node.stores)
    return [f"    Processor: {node.name} (stores: [{stores}])", f"      --> {after}", f"      <-- {before}"]
