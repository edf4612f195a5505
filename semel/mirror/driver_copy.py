"""Small rounds, copied by the driver's own thread: the ticket never leaves it, so it is used once (decision 28).

``StandingFetch`` waits for records at the leaders of the source. What it has handed out stays until it is committed.
After anything else than a commit it is closed, and the next one begins at the committed positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.copy import wanted
from semel.mirror.losses import advice
from semel.mirror.plan import Assignment, reader_of
from semel.mirror.positions import OffsetAndEpoch, Positions, flow_id
from semel.mirror.share import Copied, Share, ends_of
from semel.read.cursor import Taken
from semel.read.ranges import NO_END, Range
from semel.steps import MirrorStep, reached
from semel.transaction.participant import Participant
from semel.transaction.ticket import Ticket
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["DriverCopy", "StandingFetch", "fetched"]

#: So much of a small round is held in memory; the rest is for the next one.
_MOST_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class DriverCopy:
    """A round of answers that are here already. ``partitions`` has the target of each source partition."""

    target: Client
    config: FlowConfig
    partitions: Mapping[TopicPartition, TopicPartition]
    answers: Sequence[Sequence[Taken]]
    ends: Mapping[TopicPartition, OffsetAndEpoch]

    @property
    def targets(self) -> list[list[TopicPartition]]:
        """The target partitions that get records, for one ticket. None where only positions move."""
        written = {taken.part.range.topic_partition for answer in self.answers for taken in answer if wanted(taken)}
        return [[self.partitions[partition] for partition in sorted(written)]] if written else []

    def copy(self, tickets: Sequence[Ticket], milliseconds: float) -> Copied:
        """Copy with the only ticket, if there is one."""
        copied = Copied([], {}, {}, {})
        for ticket in tickets:
            with Participant(self.target, ticket) as participant:
                share = Share(participant, self.partitions, ticket)
                for answer in self.answers:
                    share.write(answer)
                copied = share.finish()
        reached(MirrorStep.COPIED, flow_id(self.config.policy.source, self.config.policy.target))
        written = {partition: at.target for partition, at in copied.ends.items()}
        return replace(copied, ends={p: replace(at, target=written.get(p, -1)) for p, at in self.ends.items()})


def fetched(
    source: Client,
    target: Client,
    config: FlowConfig,
    partitions: Mapping[TopicPartition, TopicPartition],
    parts: Sequence[Assignment],
) -> DriverCopy:
    """Return a round of what was planned, as far as one fits into memory."""
    answers: list[list[Taken]] = []
    ends: dict[TopicPartition, OffsetAndEpoch] = {}
    size = 0
    with reader_of(source, parts, advice(config.policy)) as reader:
        for answer in reader.answers():
            answers.append(answer)
            ends |= ends_of(answer)
            size += sum(len(taken.records) for taken in answer)
            if size >= _MOST_BYTES:
                break
    return DriverCopy(target, config, partitions, answers, ends)


class StandingFetch:
    """A Fetch of all that follows the committed positions, which the leaders hold while nothing is new."""

    def __init__(
        self,
        source: Client,
        config: FlowConfig,
        positions: Positions,
        partitions: Mapping[TopicPartition, TopicPartition],
    ) -> None:
        """``partitions`` are those that are copied now, each with its target."""
        at = {partition: positions.at[partition] for partition in partitions}
        parts = [
            Assignment(Range(topic, positions.ids[topic], index, one.offset, NO_END, one.epoch), one.epoch, target)
            for (topic, index), target in partitions.items()
            for one in (at[topic, index],)
        ]
        self._config, self._partitions = config, partitions
        #: The positions that were compared last.
        self._followed = positions
        self._reader = reader_of(source, parts, advice(config.policy), standing=True)
        self._incoming = self._reader.answers(idle=True)
        self._ids = {topic: positions.ids[topic] for topic, _ in at}
        self._committed = {partition: one.offset for partition, one in at.items()}
        self._ends: dict[TopicPartition, OffsetAndEpoch] = {}
        self._answers: list[list[Taken]] = []

    def close(self) -> None:
        """Give the connections back, and forget what was not committed."""
        self._incoming.close()
        self._reader.close()

    def follows(self, positions: Positions, partitions: Mapping[TopicPartition, TopicPartition]) -> bool:
        """Return whether it reads just these partitions, of the same topics, and from their committed positions on."""
        if self._partitions is partitions and self._followed is positions:
            return True
        follows = (
            self._partitions == partitions
            and self._ids == {topic: positions.ids.get(topic) for topic in self._ids}
            and all(positions.at[partition].offset == offset for partition, offset in self._committed.items())
        )
        if follows:
            self._partitions, self._followed = partitions, positions
        return follows

    def wait(self) -> bool:
        """Wait for answers, for ``fetch.max.wait.ms``. Return False if they had no news: no log end has moved."""
        before = self._reader.news
        answer = next(self._incoming, [])
        self._ends |= ends_of(answer)
        # what shows nothing is not held in memory
        shown = [taken for taken in answer if wanted(taken)]
        if shown:
            self._answers.append(shown)
        return self._reader.news > before

    @property
    def has_records(self) -> bool:
        """True if there are records to copy."""
        return bool(self._answers)

    @property
    def has_moved(self) -> bool:
        """True if there are records, or aborted rows and markers to move past."""
        return bool(self._ends)

    @property
    def log_ends(self) -> dict[TopicPartition, int]:
        """Where each source partition ends for this flow, by the newest answer."""
        return self._reader.log_ends

    @property
    def behind(self) -> int:
        """The offsets that are readable and not committed."""
        return sum(max(end - self._committed[partition], 0) for partition, end in self._reader.log_ends.items())

    def round(self, target: Client) -> DriverCopy:
        """Return a round of what has come."""
        return DriverCopy(target, self._config, self._partitions, list(self._answers), dict(self._ends))

    def committed(self) -> None:
        """Take note that the round is committed. What follows is the next one."""
        self._committed |= {partition: at.offset for partition, at in self._ends.items()}
        self._ends.clear()
        self._answers.clear()
