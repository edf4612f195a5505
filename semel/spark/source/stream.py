"""The start and end of each micro-batch of a streaming query (PROTOCOL 6).

``began`` goes from offset to offset unchanged. A partition that is found later begins at its earliest offset, which is
0 unless something is lost. One that the options no longer include is dropped, and begins as new when they include it
again. What the start names and the cluster lacks is looked at again before it counts as lost: see
:mod:`semel.read.data_loss`. Losses are judged here, before the offset goes into Spark's log: with failOnDataLoss
nothing is logged, without it the log holds what is left, and a replay does not judge anew.

Not promised: to see here that retention has overtaken a start that was logged long ago; the tasks do, when they read.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from semel.errors import ConfigError
from semel.read import NO_END, Loss, Range, check_ranges
from semel.read.data_loss import ends_of_epochs, report
from semel.read.row_presence import hold_rows
from semel.spark.jvm.versions.planner import Limits
from semel.spark.source.batch_ranges import (
    PartitionPlan,
    apply_rate_limit,
    between,
    parts_of,
    split_into_tasks,
    topic_ranges,
)
from semel.spark.source.options import SourceOptions
from semel.spark.source.topics import GONE, LatestOffset, SourceTopics
from semel.spark.source.unsubscribed import drop_unsubscribed
from semel.spark.source_offset import SourceOffset
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["StreamPlan"]

#: New offsets of a partition that are looked at before they are taken for rows: more are, unseen.
_FEW = 16


class StreamPlan:
    """One source of one run of a query."""

    def __init__(self, client: Client, options: SourceOptions) -> None:
        self._client = client
        self._options = options
        self._start = options.for_stream()
        self._topics = SourceTopics(client, options)
        self._initial: SourceOffset | None = None
        self._target: dict[TopicPartition, LatestOffset] | None = None
        self._freezing = False
        self._last_trigger: float | None = None
        self._checked = False
        self._dropped: set[TopicPartition] = set()
        #: The leader epochs in which logs were seen to hold still what was read.
        self._vouched: dict[TopicPartition, int] = {}
        #: Up to where partitions were seen to hold no row after their position.
        self._rowless: dict[tuple[TopicPartition, str, int], int] = {}
        #: Where all that is there now would end, for the query's progress; None before the first batch was planned.
        self.reported: SourceOffset | None = None

    def initial(self) -> SourceOffset:
        """Return where a new query starts. The answer stays the same for a run, because Spark asks more than once."""
        if self._initial is None:
            selected = self._topics.select()
            starts = self._topics.starts(selected, self._start)
            parts = {
                p: PartitionPlan(selected[p], starts[p], starts[p], starts[p]) for p in selected
            } | self._topics.left_out(selected)
            self._initial = topic_ranges(
                self._topics.cluster, parts, {p: part.position for p, part in parts.items()}, initial=True
            )
        return self._initial

    def freeze(self) -> None:
        """From now on nothing is new: what is there now is all that this run will read (``availableNow``)."""
        try:
            self._target = self._topics.latest((), fresh=True)
        except ConfigError as error:
            if error.tag not in GONE:
                raise
            # a wrong name, or a topic that was read and deleted: what was read tells, and is known when the first batch
            # is planned
            self._freezing = True

    def advance(self, start: SourceOffset, limits: Limits) -> SourceOffset:
        """Return where a batch from ``start`` ends: ``start`` itself if there is nothing to read, or too little yet."""
        self._check_cluster(start)
        parts = self._parts(start)
        if not start.initial:
            parts = self._without_markers_alone(parts)
        self.reported = topic_ranges(
            start.cluster, parts, {partition: part.latest for partition, part in parts.items()}
        )
        if self._too_little(sum(part.waiting for part in parts.values()), limits):
            return start
        return topic_ranges(start.cluster, parts, apply_rate_limit(parts, limits.most), moves=start.initial)

    def tasks(self, start: SourceOffset, end: SourceOffset) -> list[tuple[Range, ...]]:
        """Return the ranges of each task of a batch.

        The first batch of a run may have been logged long ago: it is compared with what is there now.
        """
        self._check_cluster(end)
        if start.initial:
            _check_begun_before(start, end)
        ranges = between(start, end)
        if not self._checked:
            ranges = check_ranges(self._client, ranges, fail_on_data_loss=self._options.fail_on_data_loss).ranges
            self._checked = True
        options = self._options
        return split_into_tasks(ranges, options.min_partitions, options.max_records, options.min_records)

    def _without_markers_alone(self, parts: dict[TopicPartition, PartitionPlan]) -> dict[TopicPartition, PartitionPlan]:
        """Return the same partitions, but with nothing new in those that have only new markers and aborted rows.

        Each end of a transaction leaves a marker on every partition that it added. Two queries that feed each other
        would else make batches of each other's markers for ever. Positions move over markers with the next rows.
        """
        waiting = {partition: part for partition, part in parts.items() if part.waiting}
        # what was seen counts for the very log: another leader may have cut it, another topic may have its name
        known = {p: self._rowless.get((p, part.topic_id, part.latest_epoch), 0) for p, part in waiting.items()}
        unseen = {p: max(part.position, known[p]) for p, part in waiting.items() if part.latest > known[p]}
        if any(waiting[p].latest - first > _FEW for p, first in unseen.items()):
            return parts
        ranges = [Range(p[0], waiting[p].topic_id, p[1], first, waiting[p].latest) for p, first in unseen.items()]
        if hold_rows(self._client, ranges, read_committed=self._options.read_committed):
            self._rowless.clear()
            return parts
        self._rowless = {(p, part.topic_id, part.latest_epoch): part.latest for p, part in waiting.items()}
        return parts | {p: part.up_to(part.position, part.epoch) for p, part in waiting.items()}

    # ---- from one batch to the next

    def _parts(self, start: SourceOffset) -> dict[TopicPartition, PartitionPlan]:
        before = parts_of(start)
        seen = self._seen(before)
        kept: dict[TopicPartition, PartitionPlan] = {}
        doubtful: dict[TopicPartition, PartitionPlan] = {}
        for partition, part in before.items():
            now = seen.get(partition)
            if now is not None and now.topic_id == part.topic_id and now.latest >= part.position:
                kept[partition] = part.up_to(now.latest, now.epoch)
            else:
                doubtful[partition] = part
        doubtful |= {partition: before[partition] for partition in self._cut(kept)}
        kept = {partition: part for partition, part in kept.items() if partition not in doubtful}
        left_out = {partition: part for partition, part in doubtful.items() if not self._topics.selects(partition)}
        if left_out:
            # an initial offset is the progress that is resumed: what it has must be in the first batch, be it there or
            # not
            if start.initial:
                kept |= left_out
            else:
                self._drop(left_out)
        if doubtful.keys() - left_out.keys():
            kept |= self._looked_at_again({p: part for p, part in doubtful.items() if p not in left_out}, seen)
        ids = {topic: part.topic_id for (topic, _), part in kept.items()}
        found = {p: now for p, now in seen.items() if p not in kept and ids.get(p[0], now.topic_id) == now.topic_id}
        return kept | self._found(found, lost=doubtful.keys() - kept.keys())

    def _cut(self, parts: Mapping[TopicPartition, PartitionPlan]) -> set[TopicPartition]:
        """Return the partitions whose log has lost rows that were read.

        No log is cut without an election, so the others need no look.
        """
        led_anew = {p: part for p, part in parts.items() if part.latest_epoch not in (part.epoch, self._vouched.get(p))}
        try:
            ends = ends_of_epochs(self._client, {p: part.epoch for p, part in led_anew.items()})
        except ConfigError as error:
            if error.tag not in GONE:
                raise
            return set(led_anew)  # one of them was deleted a moment ago: which one is looked at again
        self._vouched |= {p: led_anew[p].latest_epoch for p, end in ends.items() if end >= led_anew[p].position}
        return {p for p, end in ends.items() if end < led_anew[p].position}

    def _seen(self, before: Mapping[TopicPartition, PartitionPlan]) -> dict[TopicPartition, LatestOffset]:
        if self._target is not None:
            return self._target
        seen = self._topics.latest(before)
        if self._freezing:
            self._target = seen
        return seen

    def _looked_at_again(
        self, doubtful: Mapping[TopicPartition, PartitionPlan], seen: Mapping[TopicPartition, LatestOffset]
    ) -> dict[TopicPartition, PartitionPlan]:
        """Return what is left of partitions that seem to be gone, created again, or shorter than they were."""
        asked = [Range(p[0], part.topic_id, p[1], part.position, NO_END, part.epoch) for p, part in doubtful.items()]
        kept: dict[TopicPartition, PartitionPlan] = {}
        for left in check_ranges(self._client, asked, fail_on_data_loss=self._options.fail_on_data_loss).ranges:
            part = doubtful[left.topic_partition]
            if left.bounded or left.topic_id != part.topic_id:
                continue
            # the broker that was asked first is behind: nothing new for now, and no other text
            if left.start == part.position:
                kept[left.topic_partition] = part
            else:  # the log was truncated and continues from there: remember the leader that has it so
                now = seen.get(left.topic_partition)
                epoch = now.epoch if now is not None else -1
                kept[left.topic_partition] = PartitionPlan(
                    part.topic_id, min(part.began, left.start), left.start, left.start, epoch=epoch
                )
        return kept

    def _drop(self, left_out: Mapping[TopicPartition, PartitionPlan]) -> None:
        """Consent to leaving these out is asked for, and what is dropped is said, once a run."""
        new = {p: part.position for p, part in left_out.items() if p not in self._dropped}
        drop_unsubscribed(new, fail_on_data_loss=self._options.fail_on_data_loss)
        self._dropped |= new.keys()

    def _found(
        self, found: Mapping[TopicPartition, LatestOffset], lost: set[TopicPartition]
    ) -> dict[TopicPartition, PartitionPlan]:
        earliest = self._topics.earliest(found) if found else {}
        reason = "it was found later, and its log does not start at 0"
        missed = [Loss(*p, 0, first, reason) for p, first in sorted(earliest.items()) if first > 0 and p not in lost]
        report(missed, fail_on_data_loss=self._options.fail_on_data_loss)
        return {
            p: PartitionPlan(
                now.topic_id, earliest[p], earliest[p], max(earliest[p], now.latest), latest_epoch=now.epoch
            )
            for p, now in found.items()
        }

    def _too_little(self, waiting: int, limits: Limits) -> bool:
        """Return whether there are too few rows for a batch. As in Spark's own source, the first trigger of a run never
        waits, and no other waits longer than ``maxTriggerDelay``.
        """
        if limits.least is None or self._target is not None:
            return False
        now = time.monotonic()
        overdue = self._last_trigger is None or (now - self._last_trigger) * 1000 >= limits.delay_ms
        if waiting < limits.least and not overdue:
            return True
        self._last_trigger = now
        return False

    def _check_cluster(self, offset: SourceOffset) -> None:
        if offset.cluster != self._topics.cluster:
            raise ConfigError(
                f"the checkpoint was written for cluster {offset.cluster}, and kafka.bootstrap.servers leads to"
                f" {self._topics.cluster}, where its offsets mean nothing. Nothing was read. Correct the address. Or"
                " start with a new, empty checkpoint and name startingOffsets: its default, latest, leaves out all rows"
                " that are there.",
                tag="OTHER_CLUSTER",
            )


def _check_begun_before(initial: SourceOffset, end: SourceOffset) -> None:
    """Refuse a first batch that was planned, before a failure or a refusal, after where the options begin now.

    Spark keeps what it has planned, whatever ``startingOffsets`` says in the next run, so the rows in between would be
    in no batch. Seen: a checkpoint that was refused, and was used again when the progress had been forgotten. No option
    gives a lower offset later by itself.
    """
    planned = parts_of(end)
    starts = {p: part for p, part in parts_of(initial).items() if p in planned and planned[p].topic_id == part.topic_id}
    missed = {p: planned[p].began - part.position for p, part in starts.items() if part.position < planned[p].began}
    if missed:
        one = min(missed)
        raise ConfigError(
            f"the first batch of this checkpoint starts at offset {planned[one].began} of {one[0]}-{one[1]}, and the"
            f" source's options start at {starts[one].position} now: {sum(missed.values())} offsets in between would be"
            " in no batch. Nothing was read. (1) To start where the options say, use a new, empty checkpoint. (2) To"
            " start where the batch was planned, restore the former startingOffsets.",
            tag="BEGUN_LATER",
        )
