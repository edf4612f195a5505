"""What a refusal of PROTOCOL 6 says: what was found where, which rows would be repeated or missed, the ways out.

All in one line: Spark gives an exception back as text, and ours ends at the first line break. The token of the way out
is a digest of the progress and of the batch at hand, so it is spent as soon as either moves. Not promised: the ranges
where offsets cannot be compared (another cluster, a topic that was created again, sources that are not semel's); the
text says so.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from semel.errors import DataLoss
from semel.strict_json import write_object
from semel.transaction.progress.record import KafkaSource, Progress, Source, TopicEnd

__all__ = [
    "Difference",
    "Refuse",
    "Rows",
    "added_finding",
    "began_finding",
    "behind_finding",
    "cluster_finding",
    "gone_finding",
    "kind_finding",
    "moved_finding",
    "other_finding",
    "refuse",
    "source_label",
    "topic_findings",
    "unknown_start_finding",
]

#: A message names so many findings; the ranges of all of them are in :class:`Refuse`.
NAMED = 20


#: What there is to do where the progress is right, and where there is none.
_GO_ON = "start with another, empty checkpoint (this one holds the refused batch), and give"
_AS_WRITTEN = "to go on from the progress, with nothing repeated or missed,"
#: It stands where somebody has set it, and not where the rows end.
_AS_SET = (
    "to go on from the progress, where it was set (what was written from there on is written once more, and what was"
    " not read in front of it is missed),"
)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one input partition: ``first`` and up to, without, ``end``."""

    topic: str
    partition: int
    first: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} {self.first} to {self.end - 1}"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that keeps the batch from being run, in words and, for rows, as ranges.

    ``lost``: rows may be gone from the input. ``apart``: where the progress ends means nothing for what the query reads
    now. ``by_source``: it counts which of several sources stands where.
    """

    text: str
    repeated: Rows | None = None
    missed: Rows | None = None
    lost: bool = False
    apart: bool = False
    by_source: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """Stop: nobody but a person can say what is right. ``reason`` is what was found, and what running the batch as it
    is would do.

    ``repeated`` and ``missed`` are the rows of that.
    """

    reason: str
    advice: str
    token: str
    repeated: tuple[Rows, ...]
    missed: tuple[Rows, ...]
    tag: str

    @property
    def message(self) -> str:
        """What is said where the batch is not run."""
        return f"{self.reason} {self.advice}"

    def error(self) -> DataLoss:
        """The exception that says it."""
        return DataLoss(self.message, tag=self.tag)


def other_finding(label: str, start: str, recorded: str) -> Difference:
    """A source that is not semel's stands elsewhere."""
    return Difference(
        f"{label} (not semel's) starts at {start} and the progress ends at {recorded}: which rows lie between cannot"
        " be told"
    )


def kind_finding(label: str) -> Difference:
    """A source was exchanged for one of another kind."""
    return Difference(
        f"{label} is of another kind than in the progress, so their positions cannot be compared", apart=True
    )


def source_label(name: str | None, index: int) -> str:
    """A source in a message: by its name where it has one, else by its position."""
    return f"source {name!r}" if name is not None else f"source {index}"


def cluster_finding(label: str, found: str, recorded: str) -> Difference:
    """A source reads another cluster now."""
    return Difference(
        f"{label} reads cluster {found} and the progress is of cluster {recorded}, so their offsets cannot be compared",
        apart=True,
    )


def added_finding(label: str) -> Difference:
    """The progress knows nothing of a source."""
    return Difference(f"{label} is not in the progress, so which of its rows were written cannot be told")


def behind_finding(label: str, rows: Sequence[Rows]) -> Difference:
    """Without progress, nothing says what became of the rows in front of a batch."""
    return Difference(f"{label} of the batch begins behind {_ranges(rows)}, and nothing says that they were written")


def began_finding(label: str, topic: str, partition: int, now: int, before: int) -> Difference:
    """A query begins in front of where it once began."""
    return Difference(
        f"{label}: {topic}-{partition} begins at {now} now and began at {before}: this query has never read the rows"
        " between"
    )


def moved_finding(label: str, topic: str, partition: int, start: int, recorded: int) -> Difference:
    """A source begins with what another one has read and reads no more. With no rows where it begins exactly there."""
    text = (
        f"{label}: {topic}-{partition} was read up to {recorded} by another source of the query, which reads it no"
        f" more, and starts at {start} here"
    )
    repeated = Rows(topic, partition, start, recorded) if start < recorded else None
    missed = Rows(topic, partition, recorded, start) if start > recorded else None
    return Difference(text, repeated=repeated, missed=missed, by_source=True)


def unknown_start_finding(label: str) -> Difference:
    """Nothing says where the batch starts to read a source."""
    return Difference(f"where the batch starts to read {label} is not in the checkpoint")


def gone_finding(label: str) -> Difference:
    """The query no longer has a source."""
    return Difference(f"{label} of the progress is not in the query")


def topic_findings(
    label: str, topic: str, start: TopicEnd | None, end: TopicEnd | None, recorded: TopicEnd | None
) -> list[Difference]:
    """Compare one topic of one source: where the batch starts (and ends, for its id), and where the progress ends."""
    ids = [position.id for position in (end, start, recorded) if position is not None]
    before = next((id for id in ids if id != ids[0]), None)
    if before is not None:
        text = f"{label}: topic {topic!r} was deleted and created again (id {before}, now {ids[0]})"
        if start is not None and end is not None and recorded is not None and recorded.id == end.id:
            return _of_the_topic_before(text, topic, end, recorded)
        return [Difference(f"{text}, so its offsets cannot be compared", lost=True, apart=True)]
    starts = start.end if start is not None else {}
    ends = recorded.end if recorded is not None else {}
    found = [
        _partition_finding(label, topic, p, starts.get(p), ends.get(p)) for p in sorted(starts.keys() | ends.keys())
    ]
    return [finding for finding in found if finding is not None]


def _of_the_topic_before(text: str, topic: str, end: TopicEnd, recorded: TopicEnd) -> list[Difference]:
    """An old checkpoint: since it was written, the query has read the new topic.

    From here it would read that from its beginning.
    """
    found = [Difference(f"{text}, and the progress is of the new one: this checkpoint is older")]
    for partition, reached in sorted(recorded.end.items()):
        first = (end.began or {}).get(partition, 0)
        if first < reached:
            repeated = Rows(topic, partition, first, reached)
            found.append(
                Difference(f"{topic}-{partition} of the new one is committed up to {reached}", repeated=repeated)
            )
        elif first > reached:
            told = f"{topic}-{partition} of the new one begins at {first}, and is committed only up to {reached}"
            found.append(Difference(told, missed=Rows(topic, partition, reached, first), lost=True))
    return found


def _partition_finding(
    label: str, topic: str, partition: int, start: int | None, recorded: int | None
) -> Difference | None:
    where = f"{label}: {topic}-{partition}"
    if start is None:
        return Difference(f"{where} is in the progress (up to {recorded}) and not in the batch", by_source=True)
    if recorded is None:
        if start == 0:
            return None
        gone = Rows(topic, partition, 0, start)
        return Difference(f"{where} is not in the progress and starts at {start} instead of 0", missed=gone, lost=True)
    if start < recorded:
        return Difference(
            f"{where} starts at {start} and is committed up to {recorded}",
            repeated=Rows(topic, partition, start, recorded),
        )
    if start > recorded:
        return Difference(
            f"{where} starts at {start} and is committed only up to {recorded}",
            missed=Rows(topic, partition, recorded, start),
        )
    return None


def refuse(
    query: str,
    batch: int,
    stateful: bool,
    starts: Sequence[Source | None],
    ends: Sequence[Source | None],
    progress: Progress | None,
    findings: Sequence[Difference],
    override: str | None,
    prefix: str,
) -> Refuse:
    """Put a refusal together."""
    token = _token(query, batch, starts, ends, progress)
    repeated = tuple(finding.repeated for finding in findings if finding.repeated is not None)
    missed = tuple(finding.missed for finding in findings if finding.missed is not None)
    spent = ""
    if override is not None and override != token:
        spent = f" The token that was given, {override!r}, is for another batch or another progress record."
    ways = "; ".join(_ways_out(token, query, prefix, stateful, _topics([*starts, *ends]), progress, findings))
    reason = (
        f"batch {batch} of query {query} does not go on from the progress of transactionalIdPrefix {prefix!r}:"
        f" {_found(query, batch, stateful, progress)}{_listed(findings)}. {_effect(repeated, missed)}"
    )
    if stateful and progress is not None and not _has_its_state(query, batch, progress):
        reason += (
            " What the query keeps (sums, windows, rows of a join) would go on from what this checkpoint has of it: a"
            " new one has nothing, so that each sum begins at 0, and is written in the place of the right one."
        )
    advice = f"Nothing was written.{spent} Ways out: {ways}."
    return Refuse(
        reason,
        advice,
        token,
        repeated,
        missed,
        "DATA_LOSS" if any(finding.lost for finding in findings) else "PROGRESS_MISMATCH",
    )


def _has_its_state(query: str, batch: int, progress: Progress) -> bool:
    """Whether the state of this checkpoint is that which belongs to the progress."""
    return progress.query == query and progress.batch is not None and batch in (progress.batch, progress.batch + 1)


def _found(query: str, batch: int, stateful: bool, progress: Progress | None) -> str:
    if progress is None:
        return (
            f"the checkpoint plans batch {batch}, and there is no progress at all (this sink is new in the query, or"
            " its progress is lost, forgotten by `semel progress reset`, or written under another prefix; this query"
            " wrote without exactly-once before, or did not call the sink for the batches before, as it must for"
            " empty ones too)"
        )
    whose = "the same query" if progress.query == query else f"query {progress.query}"
    reached = (
        f"is batch {progress.batch} of {whose}"
        if progress.batch is not None
        else "was set by hand (`semel progress reset --to-offsets`, or `import`)"
    )
    state = ""
    if progress.query == query and progress.batch is not None and batch > progress.batch + 1:
        state = (
            "; the sink was not called for the batches between, or wrote them elsewhere: foreachBatch must call"
            " it for every batch, empty or not"
        )
    elif progress.query == query and progress.batch is not None and batch <= progress.batch:
        state = "; the checkpoint is behind it: an older copy, or one whose newest files are gone"
    if stateful and not _has_its_state(query, batch, progress):
        state += (
            "; this query keeps state (or cannot be told stateless), and the state that belongs to that progress"
            " is not in this checkpoint"
        )
    return f"the checkpoint plans batch {batch}, the progress {reached}{state}"


def _listed(findings: Sequence[Difference]) -> str:
    more = f"; and {len(findings) - NAMED} more" if len(findings) > NAMED else ""
    return "".join(f"; {finding.text}" for finding in findings[:NAMED]) + more


def _effect(repeated: Sequence[Rows], missed: Sequence[Rows]) -> str:
    if not repeated and not missed:
        return "Which rows going on from this checkpoint would repeat or miss cannot be told from offsets alone."
    parts = [_rows("repeat", repeated), _rows("miss", missed)]
    return f"Going on from this checkpoint would {' and '.join(part for part in parts if part)}."


def _rows(verb: str, ranges: Sequence[Rows]) -> str:
    return f"{verb} {_ranges(ranges)}" if ranges else ""


def _ranges(ranges: Sequence[Rows]) -> str:
    more = f" and rows of {len(ranges) - NAMED} more partitions" if len(ranges) > NAMED else ""
    return f"rows {', '.join(map(str, ranges[:NAMED]))}{more} ({sum(r.end - r.first for r in ranges)} offsets)"


def _ways_out(
    token: str,
    query: str,
    prefix: str,
    stateful: bool,
    topics: set[str],
    progress: Progress | None,
    findings: Sequence[Difference],
) -> Iterator[str]:
    by_hand = f"onProgressMismatch=checkpoint:{token} runs this one batch as the checkpoint has it"
    if progress is None:
        yield (
            "if the prefix was changed, and no sink uses the former one any more:"
            f" `semel progress rename <former> {shlex.quote(prefix)}`"
        )
        yield (
            f"{by_hand}: right where all in front of it was written, by another sink or without exactly-once, or"
            " where there was nothing to write (foreachBatch left out empty batches: have it call the sink for every"
            " batch from now on); what was not will be missing"
        )
        yield (
            "another, empty checkpoint begins by its startingOffsets (earliest: with all that is there): right where"
            " nothing was written yet; what was is written once more"
        )
        return
    theirs = _topics(progress.sources)
    strange = progress.query != query and topics and theirs and not topics & theirs
    if strange:
        yield (
            f"if the progress is another query's (it reads {', '.join(sorted(theirs))}), give this one a"
            " transactionalIdPrefix of its own: what follows would be done to that query"
        )
    if stateful and not strange and progress.batch is not None:  # no other checkpoint has its state
        yield (
            f"start from a copy of the checkpoint of query {progress.query} that has reached batch {progress.batch}"
            " (its folder offsets has a file of that name before it is started), if there is one"
        )
    elif not stateful and not strange and not any(finding.apart for finding in findings):
        where = _AS_SET if progress.batch is None else _AS_WRITTEN
        yield f"{where} {_GO_ON} {_go_on(progress, by_source=any(finding.by_source for finding in findings))}"
    yield by_hand + _by_hand_does(findings)
    anew = (
        ": with earliest its state is made anew from all rows that are there, and their output is written once more"
        if stateful
        else ": what it reads from there is written, also what is written already"
    )
    yield (
        f"`semel progress reset {shlex.quote(prefix)}` forgets the progress, for another, empty checkpoint (this one"
        f" holds the refused batch) that begins by its startingOffsets{anew}"
    )


def _by_hand_does(findings: Sequence[Difference]) -> str:
    does = ["writes the rows to repeat once more"] if any(finding.repeated for finding in findings) else []
    does += ["leaves the rows to miss out for good"] if any(finding.missed for finding in findings) else []
    return f", which {' and '.join(does)}" if does else ", whatever that repeats or misses"


def _go_on(progress: Progress, *, by_source: bool) -> str:
    """What sources are given.

    Of several, ``committed`` finds none its own place where they were exchanged, or read one partition at two offsets.
    """
    places: dict[tuple[str, str, int], int] = {}
    ours = [(index, source) for index, source in enumerate(progress.sources) if isinstance(source, KafkaSource)]
    rows = [
        ((source.cluster, name, p), end)
        for _, source in ours
        for name, topic in source.topics.items()
        for p, end in topic.end.items()
    ]
    agree = all(places.setdefault(place, end) == end for place, end in rows)
    if len(ours) == 1 or (agree and not by_source):
        return "the source startingOffsets=committed and this transactionalIdPrefix"
    given = "; ".join(f"{source_label(source.name, index)} {_offsets(source)}" for index, source in ours)
    return (
        f"each source its own startingOffsets: {given} (let each read all that its offsets name; topics and"
        " partitions can be left out again after that)"
    )


def _offsets(source: KafkaSource) -> str:
    return write_object(
        {name: {str(p): end for p, end in topic.end.items()} for name, topic in source.topics.items()}
    ).decode()


def _topics(sources: Iterable[Source | None]) -> set[str]:
    return {topic for source in sources if isinstance(source, KafkaSource) for topic in source.topics}


def _token(
    query: str, batch: int, starts: Sequence[Source | None], ends: Sequence[Source | None], progress: Progress | None
) -> str:
    """A digest of P and N.

    The batch's own offsets are in it too: a token must not fit other data that is planned under the same number.
    """
    planned = [
        Progress(query=query, batch=batch, sources=tuple(s for s in side if s is not None)).encode()
        for side in (starts, ends)
    ]
    parts = [progress.encode() if progress is not None else b"none", *planned]
    return hashlib.sha256(b"\n".join(parts)).hexdigest()[:16]
