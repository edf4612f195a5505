"""Plans of batches and progress, for the table of PROTOCOL 6."""

from __future__ import annotations

from collections.abc import Mapping

from semel.spark.sink.micro_batch import PlannedBatch, SourceBatch
from semel.spark.sink.progress_mismatch import Mismatch
from semel.spark.sink.reconcile import Decision
from semel.transaction.progress.record import KafkaSource, OpaqueSource, Progress, Source, TopicEnd

Q = "query-1"


def at(
    ends: Mapping[int, int], *, topic: str = "in", id: str = "t1", cluster: str = "c1", name: str | None = None
) -> KafkaSource:
    return KafkaSource(cluster, {topic: TopicEnd(id, dict(ends))}, name)


def part(
    start: Source | None, end: Source | None, began: KafkaSource | None = None, name: str | None = None
) -> SourceBatch:
    named = name if name is not None else next((s.name for s in (end, start) if s is not None), None)
    return SourceBatch(named, start, end, began)


def plan(batch: int, *sources: SourceBatch, query: str = Q, stateful: bool = False) -> PlannedBatch:
    return PlannedBatch(query, batch, stateful, sources)


def simple(batch: int, start: int, end: int, *, query: str = Q, stateful: bool = False) -> PlannedBatch:
    return plan(batch, part(at({0: start}), at({0: end}), at({0: 0})), query=query, stateful=stateful)


def progress(batch: int | None, *sources: Source, query: str | None = Q, run: str = "run-1") -> Progress:
    return Progress(query=query, run=run, batch=batch, sources=sources)


def refused(decision: Decision) -> Mismatch:
    assert isinstance(decision, Mismatch), decision
    return decision


P41 = progress(41, at({0: 100}))


def both(*ends: tuple[str, int], name: str | None = None) -> KafkaSource:
    """A source of several topics, each with one partition."""
    return KafkaSource("c1", {topic: TopicEnd(f"id-{topic}", {0: end}) for topic, end in ends}, name)


# Sources that are not semel's: equal or not


def other(text: str) -> OpaqueSource:
    return OpaqueSource(text)
