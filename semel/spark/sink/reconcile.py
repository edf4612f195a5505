"""Checkpoint against progress: run a micro-batch, skip it, rebuild its state, or refuse (the table of PROTOCOL 6).

Spark may replay a batch, restore an old checkpoint or start from none, and none of it may write a record twice or leave
one out. One pure function, :func:`reconcile`, compares the batch that Spark has planned with P, the newest committed
progress record, by offsets: a checkpoint restored from a backup plans *other* data under an old batch number. What the
table does not allow is refused; :mod:`semel.spark.sink.progress_mismatch` says what was found where. Not promised:
anything about sources that are not semel's but that their positions are equal or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from semel.spark.sink import differences
from semel.spark.sink.differences import Difference, Rows
from semel.spark.sink.micro_batch import PlannedBatch, SourceBatch
from semel.spark.sink.progress_mismatch import Mismatch, is_given
from semel.transaction.progress.record import KafkaSource, OpaqueSource, Progress, Source

__all__ = ["Decision", "Rebuild", "Run", "Skip", "reconcile"]


@dataclass(frozen=True, slots=True)
class Run:
    """Execute and write the batch. ``overridden`` is the refusal that only the user's token has set aside."""

    overridden: Mismatch | None = None


@dataclass(frozen=True, slots=True)
class Skip:
    """All rows of the batch are committed: return without executing it."""


@dataclass(frozen=True, slots=True)
class Rebuild:
    """The batch is committed and its state may not be: execute it where the plan needs that, write nothing."""


Decision = Run | Skip | Rebuild | Mismatch


def reconcile(
    planned: PlannedBatch,
    progress: Progress | None,
    *,
    logged: Sequence[Source | None] | None = None,
    override: str | None = None,
    prefix: str = "<transactionalIdPrefix>",
) -> Decision:
    """Return what to do with a batch, given the newest committed progress record.

    ``logged`` is this checkpoint's own end of batch P, by source, where its offset log has one. ``override`` is the
    token of ``onProgressMismatch=checkpoint:<token>``. ``prefix`` is for the words of a refusal.
    """
    if progress is None:
        if planned.batch == 0:
            return Run()
        findings = [found for index, source in enumerate(planned.sources) for found in _behind(source, index)]
    else:
        match = _match(planned, progress)
        findings = [
            finding
            for index, recorded in match.pairs
            for finding in _compare_start(planned.sources[index], index, recorded)
        ]
        findings += _moved(planned, progress, match)
        findings += [
            differences.gone_finding(differences.source_label(recorded.name, index)) for index, recorded in match.gone
        ]
        # where another query began says nothing of this one
        ours = match.pairs if progress.query == planned.query else []
        earlier = [
            finding for index, recorded in ours for finding in _begins_earlier(planned.sources[index], index, recorded)
        ]
        allowed = _allowed_by_table(
            planned, progress, match, logged, starts_there=not findings, began_there=not earlier
        )
        if allowed is not None:
            return allowed
        findings += [
            differences.added_finding(differences.source_label(planned.sources[index].name, index))
            for index in match.added
        ] + earlier
    refused = Mismatch(planned, progress, tuple(findings), prefix, override)
    return Run(overridden=refused) if is_given(refused.token, override) else refused


@dataclass(frozen=True, slots=True)
class _Match:
    """The pairs of a query's source and the progress' source, and those without a partner on either side."""

    pairs: list[tuple[int, Source]]
    added: list[int]
    gone: list[tuple[int, Source]]


def _match(planned: PlannedBatch, progress: Progress) -> _Match:
    """Match sources by name if they have one, else by position."""
    known = {(r.name if r.name is not None else index): (index, r) for index, r in enumerate(progress.sources)}
    match = _Match([], [], [])
    for index, source in enumerate(planned.sources):
        found = known.pop(source.name if source.name is not None else index, None)
        if found is None:
            match.added.append(index)
        else:
            match.pairs.append((index, found[1]))
    match.gone.extend(known.values())
    return match


def _allowed_by_table(
    planned: PlannedBatch,
    progress: Progress,
    match: _Match,
    logged: Sequence[Source | None] | None,
    *,
    starts_there: bool,
    began_there: bool,
) -> Decision | None:
    """Return the decision of the table's rows that let a batch pass if there is progress, or None."""
    sources, batch = planned.sources, planned.batch
    if progress.query == planned.query and progress.batch is not None:
        if batch == progress.batch + 1 and starts_there and all(_is_new(sources[i], i, progress) for i in match.added):
            return Run()
        if (
            planned.stateful
            and batch == progress.batch
            and began_there
            and _equal([source.end for source in sources], match)
        ):
            return Rebuild()
        if (
            not planned.stateful
            and batch <= progress.batch
            and began_there
            and _covered(planned, progress.batch, match, logged)
        ):
            return Skip()
    ours = all(isinstance(source.end, KafkaSource) for source in sources)
    return Run() if ours and not planned.stateful and starts_there and not match.added else None


def _behind(source: SourceBatch, index: int) -> list[Difference]:
    """Find what a source has read before the batch, where no progress says what became of it."""
    if not isinstance(source.start, KafkaSource) or source.began is None:
        return []
    began = source.began.topics
    ends = (
        (name, p, began[name].end.get(p, end), end)
        for name, topic in sorted(source.start.topics.items())
        if name in began
        for p, end in sorted(topic.end.items())
    )
    rows = [Rows(name, p, first, end) for name, p, first, end in ends if first < end]
    return [differences.behind_finding(differences.source_label(source.name, index), rows)] if rows else []


def _compare_start(source: SourceBatch, index: int, recorded: Source) -> list[Difference]:
    """All that keeps a source's start from being exactly where the progress ends."""
    label, start = differences.source_label(source.name, index), source.start
    if start is None:
        return [differences.unknown_start_finding(label)]
    if isinstance(start, OpaqueSource) and isinstance(recorded, OpaqueSource):
        return [] if start.text == recorded.text else [differences.other_finding(label, start.text, recorded.text)]
    if isinstance(start, OpaqueSource) or isinstance(recorded, OpaqueSource):
        return [differences.kind_finding(label)]
    end = source.end if isinstance(source.end, KafkaSource) else start
    elsewhere = next((cluster for cluster in (start.cluster, end.cluster) if cluster != recorded.cluster), None)
    if elsewhere is not None:
        return [differences.cluster_finding(label, elsewhere, recorded.cluster)]
    findings: list[Difference] = []
    for topic in sorted(start.topics.keys() | recorded.topics.keys()):
        findings += differences.topic_findings(
            label, topic, start.topics.get(topic), end.topics.get(topic), recorded.topics.get(topic)
        )
    return findings


def _moved(planned: PlannedBatch, progress: Progress, match: _Match) -> list[Difference]:
    """Return the rows that a source would read and another one has read and reads no more: the two of a union
    exchanged, or a topic moved between them.
    """
    recorded = dict(match.pairs)
    readers = [(source, planned.sources[index].end) for index, source in match.pairs] + [
        (source, None) for _, source in match.gone
    ]
    given_up = [place for source, now in readers for place in _places(source).items() if place[0] not in _places(now)]
    findings: list[Difference] = []
    for index, source in enumerate(planned.sources):
        starts = _places(source.start)
        new = _places(source.end).keys() & starts.keys() - _places(recorded.get(index)).keys()
        label = differences.source_label(source.name, index)
        findings += [
            differences.moved_finding(label, place[1], place[3], starts[place], end)
            for place, end in sorted(given_up)
            if place in new
        ]
    return [finding for finding in findings if finding.repeated or finding.missed]


def _places(source: Source | None) -> dict[tuple[str, str, str, int], int]:
    """Return the offsets of a source's partitions by cluster, topic, topic id and number. Sources that are not semel's
    have none.
    """
    if not isinstance(source, KafkaSource):
        return {}
    rows = [(name, topic) for name, topic in source.topics.items()]
    return {(source.cluster, name, topic.id, p): offset for name, topic in rows for p, offset in topic.end.items()}


def _begins_earlier(source: SourceBatch, index: int, recorded: Source) -> list[Difference]:
    """Find what a source would read before the place where the query once began, as after the loss of an offset log: no
    progress speaks of those rows.
    """
    if source.began is None or not isinstance(recorded, KafkaSource):
        return []
    label = differences.source_label(source.name, index)
    known = {name: topic.began for name, topic in recorded.topics.items() if topic.began is not None}
    return [
        differences.began_finding(label, name, partition, offset, known[name][partition])
        for name, topic in source.began.topics.items()
        for partition, offset in topic.end.items()
        if name in known and offset < known[name].get(partition, 0)
    ]


def _is_new(source: SourceBatch, index: int, progress: Progress) -> bool:
    """Return whether a source that the progress lacks was added by name or at the end, and starts where it began."""
    placed = source.name is not None or index >= len(progress.sources)
    return placed and source.start == source.began


def _equal(positions: Sequence[Source | None], match: _Match) -> bool:
    """Return whether positions equal those of the progress: the same sources, topics, partitions and offsets."""
    if match.gone or any(positions[index] is not None for index in match.added):
        return False
    return all(positions[index] == recorded for index, recorded in match.pairs)


def _covered(planned: PlannedBatch, done: int, match: _Match, logged: Sequence[Source | None] | None) -> bool:
    """Return whether every row of the batch lies below the progress."""
    ends = [source.end for source in planned.sources]
    if match.gone or any(ends[index] is not None for index in match.added):
        return False
    if not all(_below(ends[index], recorded) for index, recorded in match.pairs if isinstance(recorded, KafkaSource)):
        return False
    others = [(ends[index], recorded) for index, recorded in match.pairs if isinstance(recorded, OpaqueSource)]
    if planned.batch == done and all(end == recorded for end, recorded in others):
        return True
    return not others or (logged is not None and _equal(logged, match))


def _below(end: Source | None, recorded: KafkaSource) -> bool:
    """Return whether a source's end is at or below the progress in every partition. A missing partition counts as 0."""
    if end is None:
        return True
    if not isinstance(end, KafkaSource) or end.cluster != recorded.cluster:
        return False
    for name, topic in end.topics.items():
        known = recorded.topics.get(name)
        if known is not None and known.id != topic.id:
            return False
        ends = known.end if known is not None else {}
        if any(offset > ends.get(partition, 0) for partition, offset in topic.end.items()):
            return False
    return True
