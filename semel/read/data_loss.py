"""Rows that were to be read and are gone: retention, DeleteRecords, a truncated log, a topic deleted or created anew
(DESIGN rule 12).

With ``fail_on_data_loss`` that is :class:`~semel.errors.DataLoss`. Without, as in Spark, a range is narrowed to what is
left, with a warning, and what was passed over is handed back as :class:`Loss`.

Nothing is called lost on the word of one broker that may be behind: the end of a log is asked of the leader of the
highest epoch that any broker names (a deposed leader, or a new one that lags, names an old high watermark; measured),
and a topic counts as gone only after several looks.

Not promised: to notice rows that compaction removed, which is what compaction is for; nor a log that was cut and has
grown again, where the leader epoch of a position is not known.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from semel.errors import ConfigError, DataLoss
from semel.read.ranges import NO_END, Range, id_text, parse_id
from semel.wire import error_codes
from semel.wire.api.offsets import EARLIEST, LATEST, end_of_epoch, list_offsets
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition, named
from semel.wire.metadata_cache import newest_leaders

__all__ = ["Checked", "Loss", "check_ranges", "compare_ranges", "ends_of_epochs", "newest_ends", "report"]

log = logging.getLogger("semel.read")

_PASS_OVER = "failOnDataLoss=false resumes without them"

#: So often is a topic looked for before it counts as gone: a broker that has just come back may not have heard of it
#: yet.
LOOKS = 4


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets of a planned range that cannot be read any more, and why.

    ``end`` is exclusive. ``anew``: the topic is another one now.
    """

    topic: str
    partition: int
    start: int
    end: int
    reason: str
    anew: bool = False

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {'…' if self.end == NO_END else self.end}): {self.reason}"


@dataclass(frozen=True, slots=True)
class Checked:
    """Ranges narrowed to what can be read (empty ones too, in the order in which they were given), and what was lost of
    them.
    """

    ranges: list[Range]
    lost: list[Loss]


def check_ranges(
    client: Client,
    ranges: Sequence[Range],
    *,
    fail_on_data_loss: bool,
    deadline: Deadline | None = None,
    advice: str = "",
) -> Checked:
    """Compare ranges with what the cluster has now.

    Raises :class:`DataLoss` if something is gone and ``fail_on_data_loss`` is set. A followed range (without end) goes
    on where it can: with the earliest offset, and of a topic that was created anew with the new one. ``advice`` as for
    :func:`report`.
    """
    found = compare_ranges(client, ranges, deadline)
    report(found.lost, fail_on_data_loss=fail_on_data_loss, advice=advice)
    return found


def compare_ranges(client: Client, ranges: Sequence[Range], deadline: Deadline | None = None) -> Checked:
    """As :func:`check_ranges`, for who says himself what is lost."""
    deadline = deadline or client.deadline()
    known = _ids(client, ranges, deadline)
    checked: list[Range] = []
    lost: list[Loss] = []
    there = [one for one in ranges if one.topic_partition in known]
    bounds = _bounds(client, there, deadline)
    ends = ends_of_epochs(client, {one.topic_partition: one.epoch for one in there}, deadline)
    for one in ranges:
        narrowed, losses = _check(
            one, known.get(one.topic_partition), bounds.get(one.topic_partition), ends.get(one.topic_partition)
        )
        checked.append(narrowed)
        lost += losses
    return Checked(checked, lost)


def report(lost: Sequence[Loss], *, fail_on_data_loss: bool, advice: str = "") -> None:
    """Raise :class:`DataLoss` for what was lost, or warn of it. Nothing lost, nothing done.

    ``advice`` says what can be done, where that is not what Spark's source can do.
    """
    if lost and fail_on_data_loss:
        anew = next((loss.topic for loss in lost if loss.anew), None)
        shown = "; ".join(str(loss) for loss in lost[:5]) + (f"; and {len(lost) - 5} more" if len(lost) > 5 else "")
        raise DataLoss(
            f"offsets that were to be read are gone: {shown}. Their rows, if they were not read before, are lost for"
            " this reader. Find out what removed them."
            f" {advice or (_PASS_OVER if anew is None else _from_the_beginning(anew))}.",
            tag="OFFSETS_GONE",
        )
    for loss in lost:
        log.warning("rows were passed over because failOnDataLoss is false: %s", loss)


def _from_the_beginning(topic: str) -> str:
    """Of this topic alone: whoever forgets all progress reads the others again as well."""
    offsets = f'{{"{topic}": {{"0": -2, …}}}}'
    return (
        "(1) To read the new topic from its beginning: set this topic in the progress of the query, unless `semel"
        f" progress describe PREFIX` shows the new one already: `semel progress reset PREFIX --to-offsets '{offsets}'`."
        " Then start with a new, empty checkpoint and startingOffsets=committed. A query with state has to start over."
        " (2) Keep the checkpoint, and set failOnDataLoss=false: the sink then asks for a token first"
    )


def ends_of_epochs(
    client: Client, epochs: Mapping[TopicPartition, int], deadline: Deadline | None = None
) -> dict[TopicPartition, int]:
    """Where the logs' rows of these leader epochs and older ones end now. A log that was seen to reach further in that
    epoch was cut since.

    What is written behind an election has a higher epoch, so where that one ends below a position, what was above is
    gone; what retention takes away at the beginning ends no epoch earlier. An epoch that is not known is -1, and a
    broker that has not heard of one says nothing: both are left out.
    """
    asked = {partition: epoch for partition, epoch in epochs.items() if epoch >= 0}
    ends = end_of_epoch(client, asked, deadline) if asked else {}
    return {partition: end for partition, (_, end) in ends.items() if end >= 0}


def _check(
    one: Range, topic_id: uuid.UUID | None, bounds: tuple[int, int] | None, epoch_end: int | None
) -> tuple[Range, list[Loss]]:
    if topic_id is None or bounds is None:
        return replace(one, end=one.start), _lost(
            one, one.start, one.end, "the topic or partition does not exist any more"
        )
    earliest, end = bounds
    if topic_id != parse_id(one.topic_id):
        reason = f"the topic was deleted and created again: its id was {one.topic_id} and is {id_text(topic_id)}"
        lost = _lost(one, one.start, one.end, reason, anew=True)
        if one.bounded:
            return replace(one, end=one.start), lost
        return replace(one, topic_id=id_text(topic_id), start=earliest), lost
    losses: list[Loss] = []
    first, last = one.start, one.end
    if one.start < earliest:
        first = min(earliest, one.end)
        losses += _lost(one, one.start, first, f"the log starts at {earliest} (retention, or records were deleted)")
    reason = f"the log ends at {end} (it was cut, or has never gone as far)"
    if epoch_end is not None and epoch_end < min(end, _reached(one)):
        end, reason = (
            max(epoch_end, earliest),
            f"the log was cut at {epoch_end} and written again: there are other rows now than before",
        )
    if _reached(one) > end:
        left = max(first, end)
        losses += _lost(one, left if one.bounded else end, last if one.bounded else one.start, reason)
        first, last = (first, left) if one.bounded else (end, last)
    return replace(one, start=first, end=last), losses


def _reached(one: Range) -> int:
    """Where the log must have been for this range to be planned."""
    return one.end if one.bounded else one.start


def _lost(one: Range, start: int, end: int, reason: str, *, anew: bool = False) -> list[Loss]:
    return [Loss(one.topic, one.partition, start, end, reason, anew)] if end > start else []


def _ids(client: Client, ranges: Iterable[Range], deadline: Deadline) -> dict[TopicPartition, uuid.UUID]:
    """The id that the topic of each existing partition has now.

    What differs from the plan is looked at several times.
    """
    found: dict[TopicPartition, uuid.UUID] = {}
    doubtful = list(ranges)
    for look in range(LOOKS):
        if look:
            deadline.pause()
        found.update(_look(client, doubtful, deadline))
        doubtful = [one for one in doubtful if found.get(one.topic_partition) != parse_id(one.topic_id)]
        if not doubtful:
            break
    return found


def _look(client: Client, ranges: Collection[Range], deadline: Deadline) -> dict[TopicPartition, uuid.UUID]:
    found: dict[TopicPartition, uuid.UUID] = {}
    for topic in {one.topic for one in ranges}:
        try:
            seen = client.refresh({topic}, deadline).topics[topic]
        except ConfigError as error:
            if error.tag != "UNKNOWN_TOPIC":
                raise
            continue
        found.update({(topic, index): seen.id for index in seen.partitions})
    return found


def _bounds(client: Client, ranges: Collection[Range], deadline: Deadline) -> dict[TopicPartition, tuple[int, int]]:
    """The first offset and the high watermark of each partition."""
    if not ranges:
        return {}
    partitions = {one.topic_partition for one in ranges}
    first = list_offsets(client, dict.fromkeys(partitions, EARLIEST), read_committed=False, deadline=deadline)
    last = list_offsets(client, dict.fromkeys(partitions, LATEST), read_committed=False, deadline=deadline)
    doubtful = {one.topic_partition for one in ranges if _reached(one) > last[one.topic_partition].offset}
    ends = {partition: row.offset for partition, row in last.items()} | newest_ends(client, doubtful, deadline)
    return {partition: (first[partition].offset, ends[partition]) for partition in partitions}


def newest_ends(
    client: Client, partitions: Iterable[TopicPartition], deadline: Deadline | None = None
) -> dict[TopicPartition, int]:
    """The high watermark of each partition, by the word of the newest leader alone.

    Raises :class:`~semel.errors.Retriable` where one does not answer within the deadline.
    """
    deadline = deadline or client.deadline()
    ends: dict[TopicPartition, int] = {}
    doubtful = set(partitions)
    while doubtful:
        leaders = newest_leaders(client, doubtful, deadline)
        led = {partition: LATEST for partition in doubtful if leaders[partition][0] >= 0}
        answered = list_offsets(client, led, read_committed=False, leaders=leaders, deadline=deadline)
        ends.update({partition: row.offset for partition, row in answered.items()})
        doubtful -= answered.keys()
        if doubtful and deadline.passed:
            raise error_codes.given_up(
                f"no leader of {named(doubtful)} answered within {deadline.timeout_ms:.0f} ms",
                "no leader",
                "Nothing was read.",
            )
        if doubtful:
            deadline.pause()
    return ends
