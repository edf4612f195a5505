"""The differences that keep a batch from continuing from the progress, each in words and, for rows, as a range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from semel.transaction.progress.record import TopicEnd

__all__ = [
    "NAMED",
    "Difference",
    "Rows",
    "added_finding",
    "began_finding",
    "behind_finding",
    "cluster_finding",
    "gone_finding",
    "kind_finding",
    "moved_finding",
    "other_finding",
    "ranges_text",
    "source_label",
    "topic_findings",
    "unknown_start_finding",
]

#: A message names so many; what a mismatch holds has all of them.
NAMED = 20


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


def ranges_text(ranges: Sequence[Rows]) -> str:
    """Ranges in a message, and how many offsets they are."""
    more = f" and rows of {len(ranges) - NAMED} more partitions" if len(ranges) > NAMED else ""
    return f"rows {', '.join(map(str, ranges[:NAMED]))}{more} ({sum(r.end - r.first for r in ranges)} offsets)"


def other_finding(label: str, start: str, recorded: str) -> Difference:
    """Return the difference of a source that is not semel's and has another position."""
    return Difference(
        f"{label} (not semel's) starts at {start} and the progress ends at {recorded}: it is not"
        " known which rows lie between"
    )


def kind_finding(label: str) -> Difference:
    """Return the difference of a source that was exchanged for one of another kind."""
    return Difference(
        f"{label} is of another kind than in the progress, so their positions cannot be compared", apart=True
    )


def source_label(name: str | None, index: int) -> str:
    """Return a source's name for a message, or its position without one."""
    return f"source {name!r}" if name is not None else f"source {index}"


def cluster_finding(label: str, found: str, recorded: str) -> Difference:
    """Return the difference of a source that now reads another cluster."""
    return Difference(
        f"{label} reads cluster {found} and the progress is of cluster {recorded}, so their offsets cannot be compared",
        apart=True,
    )


def added_finding(label: str) -> Difference:
    """Return the difference of a source that is not in the progress."""
    return Difference(f"{label} is not in the progress, so it is not known which of its rows were written")


def behind_finding(label: str, rows: Sequence[Rows]) -> Difference:
    """Without progress, nothing says what became of the rows before a batch."""
    return Difference(f"{label} of the batch begins after {ranges_text(rows)}, and nothing says that they were written")


def began_finding(label: str, topic: str, partition: int, now: int, before: int) -> Difference:
    """Return the difference of a query that begins before its first beginning."""
    return Difference(
        f"{label}: {topic}-{partition} begins at {now} now and began at {before}: this query has never read the rows"
        " between"
    )


def moved_finding(label: str, topic: str, partition: int, start: int, recorded: int) -> Difference:
    """Return the difference of a source that begins with what another source has read and reads no more. It has no rows
    if the source begins exactly there.
    """
    text = (
        f"{label}: {topic}-{partition} was read up to {recorded} by another source of the query, which reads it no"
        f" more, and starts at {start} here"
    )
    repeated = Rows(topic, partition, start, recorded) if start < recorded else None
    missed = Rows(topic, partition, recorded, start) if start > recorded else None
    return Difference(text, repeated=repeated, missed=missed, by_source=True)


def unknown_start_finding(label: str) -> Difference:
    """Return the difference of a source without a known start of the batch."""
    return Difference(f"where the batch starts to read {label} is not in the checkpoint")


def gone_finding(label: str) -> Difference:
    """Return the difference of a source that the query no longer has."""
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
    """Return the differences of an old checkpoint: since it was written, the query has read the new topic.

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
