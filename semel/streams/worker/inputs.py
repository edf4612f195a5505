"""The topics that a worker reads, with the sub-topology and the source of each.

Patterns are looked up again each ``metadata.max.age.ms``. Where they find other topics, the worker's plan is another
one from then on: it makes the topics of the application that are missing, and its group rebalances. A member that has
not found a new topic yet learns of it from its assignment. So the inputs of an open transaction never change: it ends
before the rebalance, by a commit or an abort.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection

from semel.errors import DataLoss, Retriable, SemelError
from semel.read.matching import find_topics
from semel.streams.nodes.sources import TimestampExtraction
from semel.streams.topics import Plan, check_partitions, prepare, prepare_for
from semel.streams.topology.node import Sink, Source, SubTopology
from semel.streams.topology.topology import Topology
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["WorkerInputs"]

log = logging.getLogger("semel.streams")


class WorkerInputs:
    """One thread uses it. It checks and makes topics as it is made: raises what :func:`prepare` raises."""

    def __init__(self, client: Client, topology: Topology, replication: int) -> None:
        self._client, self._topology, self._replication = client, topology, replication
        self.plan: Plan = prepare(client, topology, replication)
        #: The topics that the last change has taken out of the plan: they were deleted.
        self.gone: frozenset[str] = frozenset()
        self._look_at = 0.0
        self._wait()
        self._say_what_patterns_find()

    def _say_what_patterns_find(self) -> None:
        """Warn of patterns that find nothing yet, and of those that find what the application writes."""
        name = self._topology.application_id
        if self._topology.patterns and not self.plan.matched:
            log.warning("application %s: no topic fits its patterns yet. It waits for one.", name)
        for sink in self._topology.nodes:
            if isinstance(sink, Sink) and sink.topic and not sink.internal and self._topology.matches(sink.topic):
                log.warning(
                    "application %s writes to %s, which fits its pattern: it reads what it has written, without end."
                    " Choose a pattern that leaves it out.",
                    name,
                    sink.topic,
                )

    def _wait(self) -> None:
        self._look_at = time.monotonic() + self._client.config.metadata_max_age_ms / 1000

    def check(self) -> None:
        """Check that the application's own topics still fit. Raise :class:`ConfigError` where they do not."""
        check_partitions(self._client, self._topology, self.plan)

    def look(self) -> bool:
        """Look for the topics of patterns, where it is time to. Return True if they are others than before."""
        if not self._topology.patterns or time.monotonic() < self._look_at:
            return False
        return self._look()

    def _look(self) -> bool:
        self._wait()
        try:
            found = find_topics(self._client, self._topology.matches, self.plan.matched)
        except Retriable as error:
            log.warning("topics of patterns are looked up later: %s", error)
            return False
        return self.follow(found)

    def follow(self, topics: Collection[str]) -> bool:
        """Plan for the topics among these that patterns find. Return True if they are others than before.

        Raises what :func:`prepare_for` raises.
        """
        matched = frozenset(topic for topic in topics if self._topology.matches(topic))
        before = self.plan.matched
        if matched == before:
            return False
        self.plan = prepare_for(self._client, self._topology, self._replication, matched)
        self.gone = before - matched
        name = self._topology.application_id
        for what, names in (("found", matched - before), ("gone", before - matched)):
            if names:
                log.info("application %s: topics of its patterns are %s: %s", name, what, ", ".join(sorted(names)))
        return True

    def deleted(self, error: SemelError) -> bool:
        """Return whether the deletion of a pattern's topic is the reason of an error. The plan is without it then, and
        without the others that are found to be gone.
        """
        topic = error.partition[0] if error.partition is not None else None
        if topic is None or not self._topology.matches(topic):
            return False
        self._look()
        if topic in self.plan.matched:
            return False
        self.gone |= {topic}
        return True

    def check_read(self, was_read: Callable[[str], bool]) -> None:
        """Raise :class:`DataLoss` if a topic that is gone had rows that are not committed, as far as they were
        known.
        """
        for topic in sorted(self.gone):
            if not was_read(topic):
                raise DataLoss(
                    f"topic {topic} was deleted, and rows of it were not read yet. They are lost for this application."
                    " Start it again to go on with the other topics.",
                    tag="OFFSETS_GONE",
                )

    # ---- of a partition

    def part(self, topic: str) -> SubTopology:
        """Return the sub-topology that reads a topic."""
        return self.plan.parts[topic]

    def task(self, partition: TopicPartition) -> tuple[str, int]:
        """Return the task that reads a partition, and the place of its source in the topology."""
        part = self.part(partition[0])
        return f"{part.number}_{partition[1]}", part.sources.index(self._source(partition[0]))

    def extraction(self, partition: TopicPartition) -> TimestampExtraction:
        """Return what gives the rows of a partition their timestamps."""
        return TimestampExtraction(self._topology, self._source(partition[0]))

    def _source(self, topic: str) -> Source:
        source = self._topology.source_of(topic)
        assert source is not None
        return source
