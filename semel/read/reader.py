"""The reader: ranges of offsets in, Arrow record batches out, in the columns of Spark's ``kafka`` source.

One request to each leader names all its partitions. The next request is under way while the rows of the last answer are
decoded. A position moves only when an answer has been taken. So a broken connection or a new leader costs a repetition,
but never loses or doubles a row.

A bounded range ends when its position reaches its end, whatever the last offsets hold: rows, markers, aborted rows, or
nothing (compaction). If no answer moves it for ``timeout_ms`` of waiting, :class:`~semel.errors.Retriable` names the
reason. Usually that is an open transaction below the end. A followed range (without end) waits for rows without a
limit.

Not promised: an order between partitions, nor the rows of one transaction in one batch.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from semel.errors import ConfigError, Retriable
from semel.read.columns import Columns
from semel.read.cursor import PartitionCursor, Taken
from semel.read.data_loss import Loss, check_ranges, report
from semel.read.quiet_leaders import QuietLeaders
from semel.read.ranges import Range
from semel.records.timestamps import TimestampOverflow
from semel.wire import error_codes
from semel.wire.api.fetch import Fetcher
from semel.wire.api.fetch_frames import Fetched
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import Topic, TopicPartition

__all__ = ["MAX_ROWS", "Reader"]

#: Rows of an Arrow batch at most, by default.
MAX_ROWS = 65_536
#: The position or the topic may be gone: compare with the cluster.
_OUT_OF_RANGE, _UNKNOWN_TOPIC_ID, _INCONSISTENT_TOPIC_ID = 1, 100, 103
_DOUBTFUL = (_OUT_OF_RANGE, _UNKNOWN_TOPIC_ID, _INCONSISTENT_TOPIC_ID)


@dataclass(slots=True)
class _Trouble:
    """Failures since the last useful answer, and the back-off."""

    backoff: Deadline
    parts: list[PartitionCursor] = field(default_factory=list)
    problem: str = ""


class Reader:
    """Reads ranges, one of each partition at most. Iterate over it once; :meth:`close` (or leaving the ``with`` block)
    ends it early.

    ``epochs`` are the leader epochs of the last batches before the ranges. With them a leader reports where its log has
    another history. ``advice`` is the way out in the message of a loss, if it differs from that of Spark's source.

    A ``standing`` reader waits for new rows at all leaders, and takes the answers of those that have some. It asks when
    its caller wants rows, and not while the caller works: so an answer has all that came meanwhile. Where no range has
    an end, it has fetch sessions: leaders without news are asked and answer in a few bytes.
    """

    def __init__(
        self,
        client: Client,
        ranges: Sequence[Range],
        *,
        read_committed: bool = True,
        headers: bool = False,
        fail_on_data_loss: bool = True,
        max_rows: int = MAX_ROWS,
        timestamp_overflow: TimestampOverflow = "fail",
        timeout_ms: float | None = None,
        epochs: Mapping[TopicPartition, int] | None = None,
        advice: str = "",
        standing: bool = False,
    ) -> None:
        if len({one.topic_partition for one in ranges}) < len(ranges):
            raise ValueError("two ranges of one partition: read them one after the other")
        self.lost: list[Loss] = []
        #: Partitions that are not asked for now, because the caller has enough of their rows.
        self.paused: Collection[TopicPartition] = ()
        self._client = client
        self._committed = read_committed
        self._headers = headers
        self._fail = fail_on_data_loss
        self._max_rows = max_rows
        self._overflow = timestamp_overflow
        self._timeout = (client.config.default_api_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        self._advice = advice
        self._standing = standing
        last = epochs or {}
        self._pending = {
            one.topic_partition: PartitionCursor(
                one, one.start, Columns(one.topic_partition, headers=headers), last.get(one.topic_partition, -1)
            )
            for one in ranges
            if one.size > 0
        }
        self._positions = {one.topic_partition: one.start for one in ranges}
        # a range with an end needs each answer's offsets: they say why it does not come further
        self._fetcher = Fetcher(client, sessions=standing and not any(one.bounded for one in ranges))
        self.news = 0  #: The number of answers with news of a partition.
        self._quiet = QuietLeaders()
        self._last_ends: dict[TopicPartition, int] = {}
        self._leaders_with_data: set[int] = set()
        self._trouble: _Trouble | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading and give the connections back."""
        self._fetcher.close()
        self._last_ends = self.log_ends
        self._pending.clear()

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition after everything that was returned."""
        return dict(self._positions)

    def left(self, partition: TopicPartition) -> int | None:
        """Return how many offsets the last answer knew beyond what was read, or None before the first answer."""
        part = self._pending.get(partition)
        return 0 if part is None else part.lag

    @property
    def log_ends(self) -> dict[TopicPartition, int]:
        """The end of each partition for a reader of this isolation, as its last answer named it. Also once closed."""
        found = {key: part.log_end for key, part in self._pending.items() if part.log_end is not None}
        return {**self._last_ends, **found}

    def check(self, partitions: Collection[TopicPartition]) -> None:
        """Raise :class:`DataLoss` if a topic of these partitions was deleted, or made again: for rows that were read a
        while ago, and that the caller works on now.
        """
        left = [part.left for key, part in self._pending.items() if key in partitions]
        check_ranges(self._client, left, fail_on_data_loss=self._fail, advice=self._advice)

    def __iter__(self) -> Generator[Any, None, None]:
        try:
            for taken in self.answers():
                for rows in taken:
                    partition = rows.part.range.topic_partition
                    for batch, position in rows.decode(
                        headers=self._headers, max_rows=self._max_rows, timestamp_overflow=self._overflow
                    ):
                        self._positions[partition] = position
                        yield batch
                    self._positions[partition] = rows.end
        finally:
            self.close()

    def answers(self, *, idle: bool = False) -> Generator[list[Taken], None, None]:
        """Yield the content of each answer as it came off the wire, for callers that copy batches. :attr:`positions` do
        not change.

        With ``idle``, yield an empty list for each empty answer too, for callers with other work. The next request is
        under way while the caller works, unless the reader is a standing one.
        """
        try:
            while self._pending:
                self._send(patient=self._fetcher.oldest is None)
                taken = [rows for node in self._answering() for rows in self._receive(node)]
                if taken or idle:
                    yield taken
                if self._trouble is not None and self._trouble.parts:
                    self._back_off(self._trouble)
        finally:
            self.close()

    # ---- asking

    def _send(self, *, patient: bool = False) -> None:
        """Keep a request under way to each leader that has more of the ranges. A throttling leader gets one only if
        ``patient`` waits for it.
        """
        if self._quiet.nodes and self._ask_again(patient=patient):
            return
        led: dict[int, list[PartitionCursor]] = {}
        topics = self._topics()
        for part in self._unrequested():
            partition = topics[part.range.topic].partitions.get(part.range.partition)
            if partition is None:
                self._check(part)
            elif partition.leader < 0:
                self._note_failure([part], "it has no leader")
            else:
                led.setdefault(partition.leader, []).append(part)
        # a leader of paused partitions has rows, and no request
        self._leaders_with_data &= led.keys() | {part.node for part in self._pending.values() if part.node is not None}
        for node, parts in led.items():
            if not self._fetcher.asked(node) and (patient or not self._fetcher.muted(node)):
                self._ask(node, parts, topics)

    def _ask_again(self, *, patient: bool) -> bool:
        """Ask quiet leaders for the same again. Release their partitions, and return False, if others may be due."""
        if self.paused or self._unrequested() or not self._quiet.still_lead(self._client):
            for node in self._quiet.take():
                self._release(node)
            return False
        for node in self._quiet.take():
            if not patient and self._fetcher.muted(node):
                self._quiet.nodes.add(node)
                continue
            try:
                self._fetcher.send(node, None, read_committed=self._committed)
            except Retriable as error:
                self._note_failure(self._release(node), error.message)
        return True

    def _unrequested(self) -> list[PartitionCursor]:
        paused = self.paused
        return [part for key, part in self._pending.items() if part.node is None and key not in paused]

    def _topics(self) -> Mapping[str, Topic]:
        try:
            return self._client.topics({part.range.topic for part in self._unrequested()})
        except ConfigError as error:
            if error.tag != "UNKNOWN_TOPIC":
                raise
        for part in self._unrequested():
            self._check(part)
        return self._client.topics({part.range.topic for part in self._unrequested()})

    def _ask(self, node: int, parts: list[PartitionCursor], topics: Mapping[str, Topic]) -> None:
        positions = {
            part.range.topic_partition: part.at(topics[part.range.topic].partitions[part.range.partition].leader_epoch)
            for part in parts
        }
        # do not wait for rows at one leader while another has rows
        max_wait = 0 if self._leaders_with_data - {node} and not self._standing else None
        try:
            self._fetcher.send(node, positions, read_committed=self._committed, max_wait_ms=max_wait)
        except Retriable as error:
            self._note_failure(parts, error.message)
            return
        if self._standing:
            self._quiet.asked(node, {part.range.topic for part in parts}, topics)
        for part in parts:
            part.node = node

    # ---- taking

    def _answering(self) -> list[int]:
        """Return the leaders whose answers are taken next."""
        oldest = self._fetcher.oldest
        if self._standing:
            return self._fetcher.answered()
        return [] if oldest is None else [oldest]

    def _receive(self, node: int) -> list[Taken]:
        began = time.monotonic()
        try:
            answers = self._fetcher.receive(node)
        except Retriable as error:
            self._leaders_with_data.discard(node)
            self._note_failure(self._release(node, time.monotonic() - began), error.message)
            return []
        if answers:
            self.news += 1
            taken = self._take(answers, self._release(node, time.monotonic() - began))
        else:  # in a session: all is as it was
            self._quiet.nodes.add(node)
            taken = []
        (self._leaders_with_data.add if taken else self._leaders_with_data.discard)(node)
        if self._trouble is not None and not self._trouble.parts:
            self._trouble = None
        if not self._standing:
            self._send()
        return taken

    def _release(self, node: int, waited: float = 0.0) -> list[PartitionCursor]:
        """Return the partitions of the request to ``node``, which is over."""
        parts = [part for part in self._pending.values() if part.node == node]
        for part in parts:
            part.node = None
            part.waited += waited
        return parts

    def _take(self, answers: Mapping[TopicPartition, Fetched], parts: list[PartitionCursor]) -> list[Taken]:
        taken: list[Taken] = []
        for part in parts:
            fetched = answers.get(part.range.topic_partition)
            if fetched is None:  # no news
                part.waited = 0.0
                continue
            if fetched.code or fetched.diverging:
                self._refused(part, fetched)
            else:
                rows = part.take(fetched, read_committed=self._committed)
                if rows is not None:
                    taken.append(rows)
                else:
                    self._check_stalled(part, fetched)
            self._requeue(part, fetched)
        return taken

    def _requeue(self, part: PartitionCursor, fetched: Fetched) -> None:
        """Move a served partition after the others: the broker fills an answer in the order of the request."""
        partition = part.range.topic_partition
        if part.done:
            self._pending.pop(partition, None)
        elif fetched.records:
            self._pending[partition] = self._pending.pop(partition)

    # ---- when nothing came

    def _check_stalled(self, part: PartitionCursor, fetched: Fetched) -> None:
        if not part.range.bounded:
            part.waited = 0.0
        elif part.overtaken:
            self._check(part)
        elif part.range.end > fetched.high_watermark and not part.checked:
            part.checked = True
            self._check(part)
        if not part.done and part.waited >= self._timeout:
            raise part.stalled(
                fetched.last_stable_offset,
                fetched.high_watermark,
                read_committed=self._committed,
                timeout=self._timeout,
            )

    # ---- when something is wrong

    def _refused(self, part: PartitionCursor, fetched: Fetched) -> None:
        if fetched.diverging:
            self._diverged(part, *fetched.diverging)
        elif fetched.code in _DOUBTFUL:
            self._check(part)
        elif error_codes.of("Fetch", fetched.code).temporary:
            self._note_failure([part], error_codes.name(fetched.code))
        else:
            where = f"reading {part.range.name} at offset {part.position}"
            problem = error_codes.error("Fetch", fetched.code, where, "Nothing of this answer was handed on.")
            raise problem.at(part.range.topic_partition)

    def _check(self, part: PartitionCursor) -> None:
        """Check whether something is gone: raise, continue with the rest, or find that the broker only lagged."""
        deadline = self._client.deadline(self._timeout * 1000)
        checked = check_ranges(
            self._client, [part.left], fail_on_data_loss=self._fail, deadline=deadline, advice=self._advice
        )
        if not checked.lost:
            self._note_failure([part], "the leader does not know the topic or offset (yet)")
            return
        self.lost += checked.lost
        part.range = checked.ranges[0]
        part.epoch = -1
        part.moved(part.range.start)
        self._positions[part.range.topic_partition] = part.position
        if part.done:
            self._pending.pop(part.range.topic_partition, None)

    def _diverged(self, part: PartitionCursor, epoch: int, end: int) -> None:
        """Report rows that were read and that the log no longer holds.

        If reading continues, this range skips the rows that replaced them.
        """
        reason = (
            f"the log was cut and written again: leader epoch {epoch} ends at {end}, and later offsets hold other"
            " rows than those that were read"
        )
        loss = Loss(part.range.topic, part.range.partition, min(end, part.position), part.position, reason)
        report([loss], fail_on_data_loss=self._fail, advice=self._advice)
        self.lost.append(loss)
        part.epoch = -1

    def _note_failure(self, parts: list[PartitionCursor], problem: str) -> None:
        if self._trouble is None:
            self._trouble = _Trouble(self._client.deadline(self._timeout * 1000))
        self._trouble.parts += parts
        self._trouble.problem = problem

    def _back_off(self, trouble: _Trouble) -> None:
        """Wait a little, then refresh the leaders."""
        parts, trouble.parts = trouble.parts, []
        began = time.monotonic()
        trouble.backoff.pause()
        try:
            self._client.refresh({part.range.topic for part in parts}, self._client.deadline(self._timeout * 1000))
        except ConfigError as error:
            if error.tag != "UNKNOWN_TOPIC":
                raise
            for part in parts:
                if not part.done:
                    self._check(part)
        waited = time.monotonic() - began
        for part in parts:
            part.waited += waited
            if part.waited >= self._timeout and not part.done:
                raise part.unreachable(trouble.problem, timeout=self._timeout)
