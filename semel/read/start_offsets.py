"""Start and end of reading: earliest, latest, given offsets, a time, a group's committed offsets (DESIGN section 3).

Names, meanings and defaults are those of Spark's ``kafka`` source (``startingOffsets``, ``startingTimestamp``,
``startingOffsetsByTimestamp``, ``startingOffsetsByTimestampStrategy`` and their ``ending…`` twins); :class:`Committed`
is ours. Under read_committed "latest" is the last stable offset, so that a range never ends inside a transaction that
is still open.

Not promised: that an offset given by hand or committed by a group is still there.
:func:`semel.read.data_loss.check_ranges` checks that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from semel.errors import ConfigError
from semel.read.ranges import Range, id_text
from semel.wire.api.offsets import EARLIEST, LATEST, committed, list_offsets
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition, named

__all__ = [
    "AtOffsets",
    "AtTimestamp",
    "Committed",
    "Earliest",
    "EndSpec",
    "Latest",
    "StartSpec",
    "resolve",
    "topic_ranges",
]


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first offset that the log still has."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The last stable offset under read_committed, else the high watermark."""


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for every partition: ``{"topic": {0: 23, 1: -2}}``; -1 stands for latest, -2 for earliest (only as a
    start).
    """

    offsets: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first offset whose timestamp, in ms since the epoch, is at or after this. One for all partitions, or one for
    each.

    ``no_match`` is the reaction of a start if there is no such offset: ``"error"`` or ``"latest"``. An end is then
    always the latest offset.
    """

    timestamp: int | Mapping[str, Mapping[int, int]]
    no_match: Literal["error", "latest"] = "error"


@dataclass(frozen=True, slots=True)
class Committed:
    """The offsets that this consumer group committed. Transactions that are about to commit offsets are waited for."""

    group: str


StartSpec = Earliest | Latest | AtOffsets | AtTimestamp | Committed
EndSpec = Latest | AtOffsets | AtTimestamp


def resolve(
    client: Client,
    partitions: Collection[TopicPartition],
    spec: StartSpec | EndSpec,
    *,
    read_committed: bool,
    ending: bool = False,
    deadline: Deadline | None = None,
) -> dict[TopicPartition, int]:
    """Return the offset that ``spec`` means now for each partition. Set ``ending`` if it is the end of reading.

    Raise :class:`ConfigError` if it means none: a partition that is not named, or no row as late as that.
    """
    deadline = deadline or client.deadline()
    if not partitions:
        return {}
    match spec:
        case Committed(group):
            return _committed(client, group, partitions, deadline)
        case AtTimestamp():
            positions = _by_time(client, partitions, spec, read_committed, ending, deadline)
        case AtOffsets(offsets):
            positions = _named(partitions, offsets, "offset", least=EARLIEST)
        case Earliest():
            positions = dict.fromkeys(partitions, EARLIEST)
        case Latest():
            positions = dict.fromkeys(partitions, LATEST)
    if ending and EARLIEST in positions.values():
        raise ConfigError(
            "reading cannot end at the earliest offset (-2). Nothing was read. Give an offset, a time, or -1 for the"
            " latest."
        )
    open_ones = {partition: offset for partition, offset in positions.items() if offset in (EARLIEST, LATEST)}
    listed = list_offsets(client, open_ones, read_committed=read_committed, deadline=deadline) if open_ones else {}
    return positions | {partition: row.offset for partition, row in listed.items()}


def topic_ranges(client: Client, topic: str, start: StartSpec, end: EndSpec, *, read_committed: bool) -> list[Range]:
    """Return a range of each partition of a topic, with its start and end now. Raise the errors of :func:`resolve`."""
    metadata = client.topics({topic})[topic]
    partitions = [(topic, index) for index in metadata.partitions]
    first = resolve(client, partitions, start, read_committed=read_committed)
    last = resolve(client, partitions, end, read_committed=read_committed, ending=True)
    return [
        Range(topic, id_text(metadata.id), index, first[topic, index], last[topic, index])
        for index in metadata.partitions
    ]


def _committed(
    client: Client, group: str, partitions: Collection[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, int]:
    offsets = committed(client, group, partitions, require_stable=True, deadline=deadline)
    missing = set(partitions) - set(offsets)
    if missing:
        raise ConfigError(
            f"group {group!r} has committed no offset for {named(missing)} (or it has expired), so there is no place"
            " to start from. Nothing was read. Start from earliest, latest or given offsets.",
            tag="NOTHING_COMMITTED",
        )
    return offsets


def _by_time(
    client: Client,
    partitions: Collection[TopicPartition],
    spec: AtTimestamp,
    read_committed: bool,
    ending: bool,
    deadline: Deadline,
) -> dict[TopicPartition, int]:
    if isinstance(spec.timestamp, int):
        wanted = dict.fromkeys(partitions, spec.timestamp)
    else:
        wanted = _named(partitions, spec.timestamp, "timestamp", least=0)
    negative = {partition: at for partition, at in wanted.items() if at < 0}
    if negative:
        raise ConfigError(
            f"a timestamp of {min(negative.values())} ms is before 1970. Nothing was read. Give milliseconds since"
            " the epoch."
        )
    offsets = {
        p: row.offset
        for p, row in list_offsets(client, wanted, read_committed=read_committed, deadline=deadline).items()
    }
    unmatched = {partition for partition, offset in offsets.items() if offset < 0}
    if unmatched and not ending and spec.no_match == "error":
        raise ConfigError(
            f"{named(unmatched)} hold no row at or after timestamp {wanted[min(unmatched)]} ms, so there is no place"
            " to start from. Nothing was read. Give an earlier time, or startingOffsetsByTimestampStrategy=latest to"
            " start with what comes next.",
            tag="NO_OFFSET_AT_TIMESTAMP",
        )
    return offsets | dict.fromkeys(unmatched, LATEST)


def _named(
    partitions: Collection[TopicPartition], by_topic: Mapping[str, Mapping[int, int]], what: str, *, least: int
) -> dict[TopicPartition, int]:
    """Return one number for each partition. Exactly the partitions that are read must be named, as in Spark, so that
    none is forgotten silently.
    """
    flat = {(topic, index): number for topic, numbers in by_topic.items() for index, number in numbers.items()}
    missing, extra = set(partitions) - set(flat), set(flat) - set(partitions)
    if missing or extra:
        problem = f"{named(missing)} have none" if missing else f"{named(extra)} are not read"
        raise ConfigError(
            f"each partition needs its own {what}, and no other may be named: {problem}. Nothing was read."
            + (" Use -1 for latest, -2 for earliest." if least == EARLIEST else "")
        )
    low = {partition: number for partition, number in flat.items() if number < least}
    if low:
        raise ConfigError(
            f"{named(low)}: there is no {what} {min(low.values())}. Nothing was read. Give {least} or more."
        )
    return flat
