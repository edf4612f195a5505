"""The graph that an application is: nodes with Kafka Streams' names, cut into sub-topologies.

Nodes are numbered in the order in which Kafka Streams numbers them, so that repartition and changelog topics get the
names that it would give. A sub-topology is what hangs together without a topic between; a task is one of them for one
partition.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from semel.errors import ConfigError
from semel.serdes.serde import Serde
from semel.streams.dropped import DroppedRecords
from semel.streams.handlers import Handlers
from semel.streams.state.state_store import StoreSpec
from semel.streams.topology.node import (
    EXTRACTORS,
    Extractor,
    GlobalSource,
    Node,
    Sink,
    Source,
    SubTopology,
    described,
    described_global,
)

__all__ = ["Topology", "check_extractor", "check_name", "check_topic"]


class Topology:
    """Collects nodes, and knows the names of an application's topics."""

    def __init__(self, application_id: str) -> None:
        self.application_id = application_id
        self.nodes: list[Node] = []
        self.globals: list[GlobalSource] = []
        self.dropped = DroppedRecords()
        #: The topics of each stream of names.
        self._streams: list[frozenset[str]] = []
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
        there = {self.topic(one) for one in self._all_sources if one.pattern is None}
        there |= {one.topic for one in self.globals}
        if not node.internal:
            self._check_patterns(node, there)
        if node.pattern is not None or self.topic(node) not in there:
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

    def _check_patterns(self, node: Source, there: Collection[str]) -> None:
        """Check that no topic is read by its name and by a pattern, and no pattern twice."""
        internal = {self.topic(one) for one in self._all_sources if one.internal}
        named = sorted(topic for topic in there if topic not in internal)
        pairs = [(node, named)] if node.pattern is not None else [(one, [node.topic]) for one in self.patterns]
        for one, topics in pairs:
            for topic in topics:
                if one.pattern is not None and one.pattern.fullmatch(topic):
                    raise _read_twice(topic, "its name", _shown(one))
        if node.pattern is not None and any(one.pattern == node.pattern for one in self.patterns):
            raise ConfigError(
                f"{_shown(node)} is read twice, with other serialisations. Nothing was read. Read it once, and use that"
                " stream in both places.",
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

    def check_overlap(self, topics: Collection[str]) -> None:
        """Take in the topics of a stream. Raise :class:`ConfigError` if another one has some of them, and others."""
        for other in self._streams:
            if other & set(topics) and other != set(topics):
                shared = sorted(other & set(topics))[0]
                raise _read_twice(shared, f"a stream of {sorted(other)}", f"one of {sorted(topics)}")
        self._streams.append(frozenset(topics))

    def stream_source(
        self, topic: str | re.Pattern[str], key: Serde, value: Serde, extractor: Extractor | None
    ) -> Source | None:
        """Return the source of another stream of the topic or pattern, with the same serdes and extractor, or None."""
        there = (one for one in self._all_sources if not one.internal and topic == (one.pattern or one.topic))
        wanted = (key, value, extractor)
        found = (one for one in there if not one.of_table and (one.key, one.value, one.extractor) == wanted)
        return next(found, None)

    @property
    def _all_sources(self) -> list[Source]:
        return [node for node in self.nodes if isinstance(node, Source)]

    @property
    def patterns(self) -> list[Source]:
        """The sources that read what a pattern finds."""
        return [node for node in self._all_sources if node.pattern is not None]

    def source_of(self, topic: str) -> Source | None:
        """Return the source that reads a topic, by its name or by a pattern, or None. The application's own topics fit
        no pattern.

        Raises :class:`ConfigError` for a topic that fits two patterns.
        """
        sources = self._all_sources
        named = next((one for one in sources if one.pattern is None and self.topic(one) == topic), None)
        if named is not None or topic in self.internal_topics():
            return named
        found = [one for one in self.patterns if one.pattern is not None and one.pattern.fullmatch(topic)]
        if len(found) > 1:
            raise _read_twice(topic, *map(_shown, found[:2]))
        return found[0] if found else None

    def matches(self, topic: str) -> bool:
        """Return whether a pattern finds a topic. Raises what :meth:`source_of` raises."""
        source = self.source_of(topic)
        return source is not None and source.pattern is not None

    def inputs(self, part: SubTopology, matched: Collection[str]) -> dict[str, Source]:
        """Return the topics that a sub-topology reads, each with its source, in their order. ``matched`` are those that
        patterns find.
        """
        found = {topic: self.source_of(topic) for topic in sorted(matched)}
        topics = {one: [topic for topic, source in found.items() if source is one] for one in self.patterns}
        return {
            topic: source
            for source in part.sources
            for topic in (topics[source] if source.pattern is not None else [self.topic(source)])
        }

    def inputs_by_part(self, topics: Collection[str]) -> list[list[str]]:
        """Return the topics among these that each sub-topology reads, by its number. A global table's reads none."""
        parts, matched = self.sub_topologies(), [topic for topic in topics if self.matches(topic)]
        found: list[list[str]] = [[] for _ in range(1 + max(part.number for part in parts))]
        for part in parts:
            found[part.number] = [topic for topic in self.inputs(part, matched) if topic in topics]
        return found

    def topic(self, node: Source | Sink) -> str:
        """Return the topic of a node, as the cluster knows it."""
        return f"{self.application_id}-{node.topic}" if node.internal else node.topic

    def changelog(self, store: str) -> str:
        """Return the changelog topic of a store."""
        return f"{self.application_id}-{store}-changelog"

    def internal_topics(self) -> list[str]:
        """Return the names of all topics that belong to the application."""
        repartition = {self.topic(node) for node in self._all_sources if node.internal}
        return sorted(repartition | {self.changelog(spec.name) for node in self.nodes for spec in node.stores})

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
                    lines += described(node)
            else:
                lines.append(f"   Sub-topology: {number} for global store (will not generate tasks)")
                lines += described_global(next(rest))
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


def _shown(source: Source) -> str:
    return f"pattern {source.pattern.pattern!r}" if source.pattern is not None else source.topic


def _read_twice(topic: str, one: str, other: str) -> ConfigError:
    return ConfigError(
        f"topic {topic!r} is read by {one}, and by {other}. Nothing of it was read. Change one of the two, so that each"
        " topic has one source.",
        tag="TOPOLOGY",
    )


def check_topic(topic: Any) -> None:
    """Raise :class:`ConfigError` for what is no name of a topic."""
    if not isinstance(topic, str) or not topic:
        raise ConfigError(
            f"{topic!r} is no topic. Nothing was read. Give the name of one; a pattern is for stream() alone, and by"
            " itself.",
            tag="TOPOLOGY",
        )


def _share(some: Iterable[StoreSpec], others: Iterable[StoreSpec]) -> bool:
    return bool({spec.name for spec in some} & {spec.name for spec in others})


def _joined(nodes: list[Node]) -> bool:
    """Return whether each task needs the same partition of each topic: that is so with state."""
    sources = [node for node in nodes if isinstance(node, Source)]
    several = len(sources) > 1 or any(one.pattern is not None for one in sources)
    return several and any(node.stores for node in nodes)


def _first_source(nodes: list[Node]) -> str:
    return min((node.name for node in nodes if isinstance(node, Source)), default="~")
