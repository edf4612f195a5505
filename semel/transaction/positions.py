"""Where the positions of an owner live: the strategy of a transaction, its takeover and its lost markers.

======================  ==============================================================================================
``ProgressRecords``     a record in the progress topic, the last row of each transaction (PROTOCOL 1 to 3)
``GroupOffsets``        the offsets of a consumer group, and nothing else (KIP-447): :mod:`semel.transaction.session`
======================  ==============================================================================================

A prepared transaction has neither. Its position is the text that the caller keeps with the decision
(:mod:`semel.transaction.two_phase`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from semel.errors import AbortAndRetry, ConfigError, Fenced
from semel.steps import OwnerStep, reached
from semel.transaction.data_loss import check_rows_present
from semel.transaction.group_offsets import await_groups, union
from semel.transaction.markers.heal import MarkerHealer
from semel.transaction.markers.wait import OFFSETS_TOPIC, EndedTransaction, HealCallback, wait_for_markers
from semel.transaction.ownership import Ownership
from semel.transaction.progress.log import ProgressRecord, complete
from semel.transaction.progress.record import Progress
from semel.transaction.states import Event
from semel.transaction.takeover import check_brokers, take_over
from semel.transaction.ticket import Written
from semel.transaction.two_phase.prepared import Prepared
from semel.transaction.validation import check_not_progress_topic
from semel.wire.api.describe_transactions import OpenTransaction, describe
from semel.wire.api.transactions import Identity, init_producer_id
from semel.wire.metadata import Leaders, Topic, TopicPartition

__all__ = ["GroupOffsets", "Positions", "ProgressRecords"]


class Positions:
    """Where the positions of an owner live. A strategy without a step of its own does nothing there."""

    #: The partitions that each transaction has beside those of its rows.
    partitions: frozenset[TopicPartition] = frozenset()

    def __init__(self, own: Ownership) -> None:
        self._own = own

    def take_over(self, outputs: Collection[str], group: str | None) -> None:
        """Take the id over, and learn what was committed under it."""
        raise NotImplementedError(type(self).__name__)

    def healer(self, ended: EndedTransaction | None = None) -> HealCallback:
        """Return what settles rows whose marker was lost: of the ``ended`` transaction, or of the owners before."""
        raise NotImplementedError(type(self).__name__)

    def check_outputs(self, names: Collection[str]) -> None:
        """Raise :class:`ConfigError` for a topic that rows must not go to."""

    def check_kept(self) -> None:
        """Raise :class:`~semel.errors.DataLoss` if the positions are gone."""

    def check_topics(self, topics: Mapping[str, Topic]) -> None:
        """Raise :class:`~semel.errors.DataLoss` if the topic of :attr:`partitions` is another one now."""

    def write(
        self,
        progress: Progress | None,
        wrote: Mapping[TopicPartition, Written],
        groups: Mapping[str, Collection[TopicPartition]],
        meanwhile: Callable[[], None],
        enlisted: Sequence[Prepared] = (),
    ) -> Mapping[TopicPartition, Written]:
        """Write the last row of a transaction, and return where.

        ``groups`` are the partitions whose offsets it commits, ``enlisted`` what it decides for. ``meanwhile`` is
        called while the answer is on its way.
        """
        meanwhile()
        return {}

    def before_offsets(self, groups: Mapping[str, Collection[TopicPartition]]) -> None:
        """Wait for what former owners left pending in these groups."""

    def check_written(self, written: Mapping[TopicPartition, Written], leaders: Leaders) -> None:
        """Check that what :meth:`write` wrote is still there."""

    def committed(self, identity: Identity, written: Mapping[TopicPartition, Written]) -> None:
        """Take note that it is committed."""


class ProgressRecords(Positions):
    """The progress topic: each owner reads there what was committed."""

    def __init__(self, own: Ownership) -> None:
        super().__init__(own)
        self.partitions = frozenset({own.progress.partition})
        self._recorded = Progress()

    def take_over(self, outputs: Collection[str], group: str | None) -> None:
        """Fence, read progress, see markers (PROTOCOL 2)."""
        take_over(self._own, outputs, group)

    def healer(self, ended: EndedTransaction | None = None) -> HealCallback:
        """Return what writes a lost marker as progress says."""
        return MarkerHealer(self._own, ended=ended)

    def check_outputs(self, names: Collection[str]) -> None:
        """Refuse rows in the progress topic itself."""
        check_not_progress_topic(names, self._own.progress.name)

    def check_kept(self) -> None:
        """Raise :class:`~semel.errors.DataLoss` if the progress topic was deleted."""
        self._own.progress.check_not_deleted()

    def check_topics(self, topics: Mapping[str, Topic]) -> None:
        """Raise :class:`~semel.errors.DataLoss` if the progress topic was created again."""
        self._own.progress.check_same_topic(topics)

    def write(
        self,
        progress: Progress | None,
        wrote: Mapping[TopicPartition, Written],
        groups: Mapping[str, Collection[TopicPartition]],
        meanwhile: Callable[[], None],
        enlisted: Sequence[Prepared] = (),
    ) -> Mapping[TopicPartition, Written]:
        """Write the progress record: the caller's position, where the rows lie, and the groups, with those in which
        former owners may have left offsets pending that no owner has checked since.
        """
        own = self._own
        self._recorded = complete(progress, own.committed, wrote, union(own.groups_to_check, groups), enlisted)
        written = own.progress.write(self._recorded, own.identity, meanwhile=meanwhile)
        reached(OwnerStep.PROGRESS_WRITTEN, own.transactional_id)
        return written

    def before_offsets(self, groups: Mapping[str, Collection[TopicPartition]]) -> None:
        """Wait for pending offsets of the id."""
        if groups or self._recorded.forgotten:  # what is forgotten names no group for those who come later
            await_groups(self._own, groups)

    def check_written(self, written: Mapping[TopicPartition, Written], leaders: Leaders) -> None:
        """Check that the record is still there."""
        own = self._own
        try:
            check_rows_present(own.client, own.identity, written, leaders, own.deadline())
        except (AbortAndRetry, ConfigError):
            self.check_kept()
            raise

    def committed(self, identity: Identity, written: Mapping[TopicPartition, Written]) -> None:
        """Keep the record as the newest one that is committed."""
        offset = written[self._own.progress.partition].last
        self._own.committed = ProgressRecord(offset, identity.producer_id, identity.epoch, self._recorded, True)


class GroupOffsets(Positions):
    """The offsets of a consumer group, in the transaction with the rows.

    The next owner of the partitions reads where to resume, and the group's generation fences the former owner. A member
    reads stable offsets when partitions are assigned to it, so no owner waits for pending ones.
    """

    def take_over(self, outputs: Collection[str], group: str | None) -> None:
        """Take the id: a predecessor with the same one is fenced, what it left open is aborted and seen to have ended.

        Raises :class:`Fenced` if another owner is at work, :class:`~semel.errors.Unsupported` for a broker that is too
        old, :class:`~semel.errors.DataLoss` where a predecessor's marker does not come.
        """
        own = self._own
        own.states.move(Event.TAKING_OVER)
        try:
            self._take_over()
        except Fenced:
            own.states.move(Event.FENCED)
            raise
        own.states.move(Event.TAKEN_OVER)

    def _take_over(self) -> None:
        own, deadline = self._own, self._own.deadline()
        check_brokers(own.client, deadline)
        before = describe(own.client, own.transactional_id, deadline)
        own.settle_timeout(deadline)
        own.identity = init_producer_id(own.client, own.transactional_id, own.timeout_ms, deadline)
        reached(OwnerStep.INITIALISED, own.transactional_id)
        own.checked_partitions = set()
        if before is not None:
            own.previous_producer_ids = frozenset({before.producer_id})
            wait_for_markers(
                own.client,
                {partition for partition in before.partitions if partition[0] != OFFSETS_TOPIC},
                own.identity,
                own.previous_producer_ids,
                last_offsets={},
                deadline=own.deadline(),
                heal=self.healer(),
            )
            reached(OwnerStep.MARKERS_CHECKED, own.transactional_id)

    def healer(self, ended: EndedTransaction | None = None) -> HealCallback:
        """Return what waits on. A marker that was lost stops the session, which names the partition. Its decision is
        for an operator (``semel txn heal``): no progress says it.
        """
        return _NoHealing()


class _NoHealing:
    patience_s = float("inf")

    def __call__(self, lost: Mapping[TopicPartition, OpenTransaction], leaders: Leaders) -> None:
        """Never called."""
