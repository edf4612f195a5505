"""The query and micro-batch that call the sink, read from Spark, so that users configure nothing twice (DESIGN 3,
PROTOCOL 6).

:func:`observe` is called in the foreachBatch callback. The end of batch N is N's entry in Spark's offset log; its start
is the end of N - 1, and for a source or partition that end N - 1 lacks, ``began`` of end N: what ``initialOffset``
answered is in no log. Not promised: batches whose entry is not in the log, which are refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from semel.errors import DataLoss, Unsupported
from semel.spark.jvm import streaming_query
from semel.spark.jvm.offset_log import NO_OFFSET
from semel.spark.jvm.values import Execution, OffsetLogEntry, Plan, Settings, SourceInfo, Statefulness, Trigger
from semel.spark.source_offset import SourceOffset, parse
from semel.transaction.progress.record import KafkaSource, OpaqueSource, Source, TopicEnd

__all__ = [
    "MicroBatch",
    "PlannedBatch",
    "Query",
    "SourceBatch",
    "not_logged",
    "observe",
    "position",
    "source_batch",
    "texts_of",
]


@dataclass(frozen=True, slots=True)
class Query:
    """A run of a streaming query."""

    execution: Execution
    plan: Plan
    sources: tuple[SourceInfo, ...]
    settings: Settings

    @property
    def id(self) -> str:
        """The query's id: it lives in the checkpoint, and in copies of it."""
        return self.execution.query

    @property
    def run(self) -> str:
        """The run's id: new at every start."""
        return self.execution.run

    @property
    def name(self) -> str | None:
        """The name that the user gave."""
        return self.execution.name

    @property
    def checkpoint(self) -> str:
        """The checkpoint's location, as a URI."""
        return self.execution.checkpoint

    @property
    def temporary(self) -> bool:
        """True if that is a folder that Spark deletes when the run ends."""
        return self.execution.temporary

    @property
    def trigger(self) -> Trigger:
        """The query's trigger."""
        return self.execution.trigger

    @property
    def ends_by_itself(self) -> bool:
        """True if the query ends when the data of its start are processed."""
        return self.trigger in (Trigger.AVAILABLE_NOW, Trigger.ONCE)

    @property
    def stateful(self) -> bool:
        """Return whether batches build on state. A plan that is not known to be stateless counts as stateful."""
        return self.plan.statefulness is not Statefulness.STATELESS


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """One source of the batch at hand.

    ``start`` is the end of the batch before, and ``began`` for what that end lacks; None for a new source that is not
    semel's. ``end`` is this batch's; None for a named source that this batch knows nothing of yet. ``began`` is None
    for sources that are not semel's.
    """

    name: str | None
    start: Source | None
    end: Source | None
    began: KafkaSource | None

    @property
    def offsets(self) -> int:
        """The number of offsets between start and end of a source of ours."""
        if not isinstance(self.start, KafkaSource) or not isinstance(self.end, KafkaSource):
            return 0
        starts = self.start.topics
        return sum(
            offset - starts[name].end.get(index, offset) if name in starts else 0
            for name, topic in self.end.topics.items()
            for index, offset in topic.end.items()
        )


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """The micro-batch that Spark has planned: N of a query, with its sources in the order of the query."""

    query: str
    batch: int
    stateful: bool
    sources: tuple[SourceBatch, ...]

    @property
    def starts(self) -> tuple[Source, ...]:
        """The start of each source in this batch, as far as it is known."""
        return tuple(source.start for source in self.sources if source.start is not None)

    @property
    def ends(self) -> tuple[Source, ...]:
        """The end of each source in this batch: the ``sources`` of its progress record."""
        return tuple(source.end for source in self.sources if source.end is not None)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One batch.

    ``starts`` and ``ends`` are Spark's own texts, in the order of the sources; None where its log has nothing.
    """

    query: Query
    number: int
    sources: tuple[SourceBatch, ...]
    starts: tuple[str | None, ...]
    ends: tuple[str | None, ...]

    @property
    def planned(self) -> PlannedBatch:
        """The batch in the words of :func:`semel.spark.sink.reconcile.reconcile`."""
        return PlannedBatch(self.query.id, self.number, self.query.stateful, self.sources)

    def positions(self, number: int) -> tuple[Source | None, ...] | None:
        """Return the end of the batch of this number by source, if this checkpoint's offset log still has it; None
        without an entry.

        The log is not asked for what this batch has brought along: its own end, and that of the one before.
        """
        texts = {self.number: self.ends, self.number - 1: self.starts if self.number > 0 else None}.get(number)
        sources = self.query.sources
        if texts is None:
            entry = streaming_query.offset_log_entry(self.query.execution, number)
            if entry is None:
                return None
            texts = texts_of(entry, sources)
        return tuple(position(info, text, f"offsets/{number}") for info, text in zip(sources, texts, strict=True))

    @property
    def rows(self) -> int | None:
        """The greatest number of rows that the query may give in this batch, if it chooses columns and rows of sources
        of ours, and no option says how many tasks read them. Else None.
        """
        if not self.query.plan.plain or any(not info.ours or info.divided for info in self.query.sources):
            return None
        return sum(source.offsets for source in self.sources)

    def reads(self, cluster: str) -> set[str]:
        """Return the topics of this cluster that it reads."""
        return {
            topic
            for end in self.planned.ends
            if isinstance(end, KafkaSource) and end.cluster == cluster
            for topic in end.topics
        }


def observe(df: DataFrame, last: MicroBatch | None = None) -> MicroBatch:
    """Return the batch and query of the callback that got this DataFrame.

    ``last`` is the answer before. Within its run its query is used again, and its end where this batch follows it: an
    entry of the offset log stays as it is.
    """
    if streaming_query.is_connect(df):
        raise Unsupported(
            "this DataFrame belongs to Spark Connect, which does not show the query's offsets to a callback. Nothing"
            " was written. Start the query from a classic Spark session.",
            tag="SPARK_CONNECT",
        )
    called = streaming_query.callback(df)
    if called is None:
        raise Unsupported(
            "the sink was called outside of foreachBatch, or there in a thread that does not know of it (a"
            " pyspark.InheritableThread does), so there is no micro-batch to commit. Nothing was written. Give the"
            " sink to foreachBatch; its write() is for batch jobs.",
            tag="NO_CALLBACK",
        )
    if last is None or last.query.run != called.run:
        execution = streaming_query.find_query(df, called.query)
        judged = streaming_query.judge_plan(df, execution, called.batch)
        query, starts = Query(execution, judged, streaming_query.sources(execution), streaming_query.settings(df)), None
    else:
        query, starts = last.query, last.ends if last.number == called.batch - 1 else None
    return _batch(query, called.batch, starts)


def _batch(query: Query, number: int, starts: tuple[str | None, ...] | None) -> MicroBatch:
    """Return a batch of this number. ``starts`` are the ends of the one before, where they are known."""
    ends = _logged(query, number)
    if starts is None:
        starts = _logged(query, number - 1) if number > 0 else tuple(None for _ in query.sources)
    sources = tuple(
        source_batch(info, number, start, text) for info, start, text in zip(query.sources, starts, ends, strict=True)
    )
    return MicroBatch(query, number, sources, starts, ends)


def _logged(query: Query, number: int) -> tuple[str | None, ...]:
    """Return the texts of a batch's entry by source."""
    entry = streaming_query.offset_log_entry(query.execution, number)
    if entry is None:
        raise not_logged(query.checkpoint, number)
    return texts_of(entry, query.sources)


def not_logged(checkpoint: str, batch: int) -> DataLoss:
    """Return the error for a batch that the offset log of a checkpoint lacks."""
    return DataLoss(
        f"the checkpoint {checkpoint} has no offsets/{batch}, so where a batch starts or ends is not known."
        " Nothing was written. Restore the checkpoint from a backup, or start with a new one and"
        " startingOffsets=committed.",
        tag="CHECKPOINT_DAMAGED",
    )


def texts_of(entry: OffsetLogEntry, sources: tuple[SourceInfo, ...]) -> tuple[str | None, ...]:
    """Return the texts of a log entry by source: by position in version 1, by key in version 2 (without sources that
    the query no longer has).
    """
    keys = [str(index) if entry.version == 1 else info.key for index, info in enumerate(sources)]
    return tuple(entry.offsets.get(key) for key in keys)


def source_batch(info: SourceInfo, batch: int, start: str | None, end: str | None) -> SourceBatch:
    """One source's part of a batch, from the texts of the log: its start is made whole with ``began``."""
    if not info.ours or end is None:
        before = position(info, start, f"offsets/{batch - 1}") if batch > 0 else None
        return SourceBatch(info.name, before, position(info, end, f"offsets/{batch}"), None)
    ended = parse(end, f"offsets/{batch}")
    started = parse(start, f"offsets/{batch - 1}") if start is not None else None
    return SourceBatch(info.name, _start(info, started, ended), _end(info, ended), _began(info, ended))


def position(info: SourceInfo, text: str | None, where: str) -> Source | None:
    """Return a source's end as a position.

    A named source that the log lacks has none; one by position keeps its place with Spark's own sign.
    """
    if text is None:
        return OpaqueSource(NO_OFFSET) if info.name is None else None
    return _end(info, parse(text, where)) if info.ours else OpaqueSource(text, info.name)


def _end(info: SourceInfo, offset: SourceOffset) -> KafkaSource:
    topics = {name: TopicEnd(topic.id, dict(topic.end), dict(topic.began)) for name, topic in offset.topics.items()}
    return KafkaSource(offset.cluster, topics, info.name)


def _began(info: SourceInfo, offset: SourceOffset) -> KafkaSource:
    """Return where the source began, as a position."""
    topics = {name: TopicEnd(topic.id, dict(topic.began)) for name, topic in offset.topics.items()}
    return KafkaSource(offset.cluster, topics, info.name)


def _start(info: SourceInfo, before: SourceOffset | None, end: SourceOffset) -> KafkaSource:
    """Return the end of the previous batch, and ``began`` of this one's end for each partition that it lacks."""
    if before is None:
        return _began(info, end)
    topics: dict[str, TopicEnd] = {}
    for name in before.topics.keys() | end.topics.keys():
        old, new = before.topics.get(name), end.topics.get(name)
        found = [topic for topic in (old, new) if topic is not None]
        topics[name] = TopicEnd(
            found[0].id, {**(new.began if new is not None else {}), **(old.end if old is not None else {})}
        )
    return KafkaSource(before.cluster, topics, info.name)
