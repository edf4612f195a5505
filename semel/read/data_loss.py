"""Rows of a plan that are gone: retention, DeleteRecords, a truncated log, a topic deleted or created again (DESIGN
rule 12).

With ``fail_on_data_loss`` they raise :class:`~semel.errors.DataLoss`. Without it, as in Spark, a range is narrowed to
the rest with a warning, and the skipped offsets are returned as :class:`Loss`.

One broker is not enough to call rows lost, since it may lag. The leader of the highest epoch that any broker names
gives the end of a log: a deposed leader, or a new one that lags, names an old high watermark (measured). A topic counts
as gone only after several looks.

Not promised: to notice rows that compaction removed, which is its purpose. Nor to notice a log that was truncated and
has grown again, if the leader epoch of a position is not known.
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

__all__ = ["Checked", "Loss", "check_ranges", "compare_ranges", "ends_of_epochs", "loss_error", "newest_ends", "report"]

log = logging.getLogger("semel.read")

_PASS_OVER = "failOnDataLoss=false resumes without them"

#: Looks for a topic before it counts as gone: a broker that was just restarted may not know it yet.
LOOKS = 4


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets of a planned range that cannot be read any more, and the reason.

    ``end`` is exclusive. ``anew`` is True if the topic was created again.
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
    """Ranges narrowed to the offsets that can be read, and the losses. Ranges keep their order; empty ones stay."""

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
    """Compare ranges with the current logs of the cluster.

    Raise :class:`DataLoss` if something is gone and ``fail_on_data_loss`` is set. A followed range (without end)
    continues at the earliest offset, of the new topic if the topic was created again. ``advice`` as for :func:`report`.
    """
    checked = compare_ranges(client, ranges, deadline)
    report(checked.lost, fail_on_data_loss=fail_on_data_loss, advice=advice)
    return checked


def compare_ranges(client: Client, ranges: Sequence[Range], deadline: Deadline | None = None) -> Checked:
    """Compare as :func:`check_ranges` does, but leave the report of losses to the caller."""
    deadline = deadline or client.deadline()
    ids = _ids(client, ranges, deadline)
    checked: list[Range] = []
    lost: list[Loss] = []
    there = [one for one in ranges if one.topic_partition in ids]
    bounds = _bounds(client, there, deadline)
    ends = ends_of_epochs(client, {one.topic_partition: one.epoch for one in there}, deadline)
    for one in ranges:
        narrowed, losses = _check(
            one, ids.get(one.topic_partition), bounds.get(one.topic_partition), ends.get(one.topic_partition)
        )
        checked.append(narrowed)
        lost += losses
    return Checked(checked, lost)


def report(lost: Sequence[Loss], *, fail_on_data_loss: bool, advice: str = "") -> None:
    """Raise :class:`DataLoss` for losses, or warn of them. Do nothing if there are none.

    ``advice`` is the way out in the message, if it differs from that of Spark's source.
    """
    if lost and fail_on_data_loss:
        raise loss_error(lost, advice)
    for loss in lost:
        log.warning("rows were passed over because failOnDataLoss is false: %s", loss)


def loss_error(lost: Sequence[Loss], advice: str = "") -> DataLoss:
    """Return the error for losses, of which there is at least one. It is of the first one's partition."""
    anew = next((loss.topic for loss in lost if loss.anew), None)
    shown = "; ".join(str(loss) for loss in lost[:5]) + (f"; and {len(lost) - 5} more" if len(lost) > 5 else "")
    return DataLoss(
        f"offsets that were to be read are gone: {shown}. Their rows, if they were not read before, are lost for"
        " this reader. Find out what removed them."
        f" {advice or (_PASS_OVER if anew is None else _from_the_beginning(anew))}.",
        tag="OFFSETS_GONE",
    ).at((lost[0].topic, lost[0].partition))


def _from_the_beginning(topic: str) -> str:
    """Return the advice to set this topic alone: a user who resets all progress reads the other topics again too."""
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
    """Return, for each log, the end of its rows of this leader epoch and older ones. A log that was seen to reach
    further in that epoch was truncated since.

    Rows after an election have a higher epoch. So if the epoch of a position ends below it, the rows above that end are
    gone. Retention removes rows at the beginning and ends no epoch earlier. An unknown epoch is -1, and a broker that
    does not know an epoch gives no end: both are left out.
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
    """Return the offset that the log had reached when this range was planned."""
    return one.end if one.bounded else one.start


def _lost(one: Range, start: int, end: int, reason: str, *, anew: bool = False) -> list[Loss]:
    return [Loss(one.topic, one.partition, start, end, reason, anew)] if end > start else []


def _ids(client: Client, ranges: Iterable[Range], deadline: Deadline) -> dict[TopicPartition, uuid.UUID]:
    """Return the current id of the topic of each existing partition.

    Partitions whose id differs from the plan are looked up several times.
    """
    ids: dict[TopicPartition, uuid.UUID] = {}
    doubtful = list(ranges)
    for look in range(LOOKS):
        if look:
            deadline.pause()
        ids.update(_look(client, doubtful, deadline))
        doubtful = [one for one in doubtful if ids.get(one.topic_partition) != parse_id(one.topic_id)]
        if not doubtful:
            break
    return ids


def _look(client: Client, ranges: Collection[Range], deadline: Deadline) -> dict[TopicPartition, uuid.UUID]:
    ids: dict[TopicPartition, uuid.UUID] = {}
    for topic in {one.topic for one in ranges}:
        try:
            seen = client.refresh({topic}, deadline).topics[topic]
        except ConfigError as error:
            if error.tag != "UNKNOWN_TOPIC":
                raise
            continue
        ids.update({(topic, index): seen.id for index in seen.partitions})
    return ids


def _bounds(client: Client, ranges: Collection[Range], deadline: Deadline) -> dict[TopicPartition, tuple[int, int]]:
    """Return the first offset and the high watermark of each partition."""
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
    """Return the high watermark of each partition from the newest leader alone.

    Raise :class:`~semel.errors.Retriable` if one does not answer within the deadline.
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
