"""Healing: write a lost marker as the coordinator would have, on the partition that lacks it (PROTOCOL 5).

On 4.3.0 to 4.4.0 a partition without a leader at the end of a transaction never gets its marker (KAFKA-20734). Its rows
stay open, readers stop before them, and the end of the next transaction of that producer id would settle them, perhaps
the wrong way. The marker that is written here has the rows' producer id, their epoch + 1 and the made decision. A
repeat does no harm. A late one, in the middle of another transaction, is refused by the broker (measured).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from semel.errors import ConfigError, DataLoss, Fenced, Retriable
from semel.steps import OwnerStep, reached
from semel.transaction.end_txn import check_still_owner
from semel.transaction.markers.outcome import outcome_of_open_rows
from semel.transaction.markers.wait import EndedTransaction, describe_open_rows, heal_command
from semel.transaction.ownership import Ownership
from semel.transaction.progress.record import RecordedOutcome
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.transaction.states import State
from semel.wire.api.describe_transactions import OpenTransaction, describe, marker_of, write_markers
from semel.wire.api.transactions import end
from semel.wire.error_codes import name
from semel.wire.metadata import Leaders, TopicPartition

__all__ = ["MarkerHealer"]

_OTHER_OWNER = (47, 49, 90)


class MarkerHealer:
    """Writes the markers that an owner's partitions lack, or stops and says why it cannot.

    ``ended`` is the transaction that the owner has just ended itself; without it, what is open was left by the owners
    before it, and InitProducerId has answered: no coordinator has a marker left to write.
    """

    def __init__(self, own: Ownership, ended: EndedTransaction | None = None) -> None:
        self._own = own
        self._ended = ended
        self._proven = ended is None
        self._written_down = False

    @property
    def patience_s(self) -> float:
        """The wait before the first call: markers on their way land in milliseconds."""
        return 0.0 if self._ended is None else 0.25

    def __call__(self, lost: Mapping[TopicPartition, OpenTransaction], leaders: Leaders) -> None:
        """Settle the open rows of these partitions. The caller checks whether that has happened.

        Raises :class:`ConfigError` tagged MARKER_LOST without the right to write markers. Raises :class:`DataLoss`
        tagged DECISION_UNKNOWN if nothing shows how a transaction ended, or DECISION_CONTRADICTED if another outcome
        than this owner's is recorded for it. Raises :class:`Fenced` if another owner has come, or may have, and
        :class:`Retriable` if brokers stay away.
        """
        if not self._proven:
            self._prove_ended()
            return  # the last markers may have come meanwhile: only what is open now has lost its own
        own_ids = {
            self._own.identity.producer_id,
            *self._own.previous_producer_ids,
            *([self._ended.identity.producer_id] if self._ended else []),
        }
        ours = {partition: opened for partition, opened in lost.items() if opened.producer_id in own_ids}
        if any(
            opened.producer_id != self._own.identity.producer_id and not self._is_own(opened)
            for opened in ours.values()
        ):
            self._check_not_expired()
        decisions = {partition: self._decision(partition, opened) for partition, opened in ours.items()}
        unknown = {partition: ours[partition] for partition, commit in decisions.items() if commit is None}
        if unknown:
            self._stop_unknown(unknown)
        if ours:
            self._write(ours, {partition: bool(commit) for partition, commit in decisions.items()}, leaders)

    def _prove_ended(self) -> None:
        """While its coordinator still writes markers it answers 51, and none of them is lost (PROTOCOL 5.2)."""
        assert self._ended is not None
        identity = self._ended.identity
        code = end(self._own.client, identity, commit=self._ended.committed, deadline=self._own.deadline()).code
        if code in _OTHER_OWNER:
            raise Fenced(
                f"another owner has taken over transactional id {identity.transactional_id!r} while this one waited"
                f" for the markers of its last transaction, which was {_word(self._ended.committed)}. Stop one of the"
                " two: each prefix belongs to one query at a time."
            )
        if code:
            raise Retriable(
                f"the coordinator had ended the last transaction of {identity.transactional_id!r}, and says"
                f" {name(code)} now. It is committed as a whole or not at all. Start again: taking over finds out"
                " which.",
                tag="OUTCOME_UNKNOWN",
            )
        self._proven = True

    def _check_not_expired(self) -> None:
        """Check that the id is still this owner's, after open rows of another producer id were seen. Only then did an
        earlier owner leave them.

        After the id has expired, its next owner gets another producer id. This owner may know that one from progress,
        as it knows its predecessors', and nothing else distinguishes the two: the open rows may be of a running owner.
        """
        own = self._own
        now = describe(own.client, own.transactional_id, own.deadline())
        if now is not None and now.producer_id == own.identity.producer_id:
            return
        has = "no owner has it now" if now is None else f"another owner has it now (producer id {now.producer_id})"
        raise Fenced(
            f"transactional id {own.transactional_id!r} has expired at its coordinator"
            f" (transactional.id.expiration.ms) since this owner took it over, and {has}. Nothing new was written,"
            " and no marker. Start it again if no other query runs with this prefix."
        )

    def _decision(self, partition: TopicPartition, opened: OpenTransaction) -> bool | None:
        if self._is_own(opened):
            assert self._ended is not None
            return self._ended.committed
        own = self._own
        return outcome_of_open_rows(
            own.client, partition, opened, own.progress_log, own.identity.producer_id, own.deadline()
        )

    def _is_own(self, opened: OpenTransaction) -> bool:
        return self._ended is not None and (opened.producer_id, opened.epoch) == (
            self._ended.identity.producer_id,
            self._ended.identity.epoch,
        )

    def _write(
        self, lost: Mapping[TopicPartition, OpenTransaction], commits: Mapping[TopicPartition, bool], leaders: Leaders
    ) -> None:
        if any(map(self._is_own, lost.values())):
            self._write_down()
        markers = {partition: marker_of(opened, commit=commits[partition]) for partition, opened in lost.items()}
        try:
            written = write_markers(self._own.client, markers, leaders, self._own.deadline())
        except ConfigError as refused:
            rows = "; ".join(
                f"{describe_open_rows(p, o)}, which was {_word(commits[p])}" for p, o in sorted(lost.items())[:5]
            )
            command = f"{self._command(lost)} --as {'commit' if commits[min(lost)] else 'abort'}"
            raise ConfigError(
                f"the brokers have lost the marker that ends a transaction of {self._own.transactional_id!r}"
                f" (KAFKA-20734): {rows}. Its rows are all there, and readers wait before them. Nothing new was"
                f" written. {refused.message} Or have an administrator run, for each of them: {command}",
                tag="MARKER_LOST",
            ) from None
        for topic, index in sorted(written):
            reached(OwnerStep.HEALED, f"{self._own.transactional_id} {topic}-{index}")

    def _write_down(self) -> None:
        """Record the outcome before the first marker: if this process dies in between, its successor must end the rest
        alike.

        An operator may have come first, who knew less, and said otherwise: partitions may be ended so already, and all
        others will be.
        """
        if self._ended is not None and not self._written_down:
            identity, committed = self._ended.identity, self._ended.committed
            if (
                self._own.progress.record_outcome(
                    RecordedOutcome(identity.producer_id, identity.epoch, committed), self._own.deadline()
                )
                is not committed
            ):
                self._stop_contradicted(committed=committed)
            self._written_down = True
            reached(OwnerStep.DECISION_WRITTEN, self._own.transactional_id)

    def _stop_contradicted(self, *, committed: bool) -> NoReturn:
        recorded, follows = _word(not committed), "doubled" if committed else "missing"
        raise DataLoss(
            f"the last transaction of {self._own.transactional_id!r} was {_word(committed)}, but an operator recorded"
            f" it as {recorded} (`semel txn heal`) when a marker was lost (KAFKA-20734). No marker was written. The"
            f" next start ends it as {recorded}, so rows on partitions that have their marker would be {follows}."
            " Compare output and source with `semel verify` before you restart.",
            tag="DECISION_CONTRADICTED",
        )

    def _stop_unknown(self, unknown: Mapping[TopicPartition, OpenTransaction]) -> NoReturn:
        own = self._own
        if own.states.now is State.NEW:  # where a transaction has begun, the abort after this finds a rival
            check_still_owner(
                own,
                "while this one looked at open rows of it. This one has written nothing. Run one query with this"
                " prefix, not two.",
            )
        rows = "; ".join(describe_open_rows(partition, opened) for partition, opened in sorted(unknown.items())[:5])
        raise DataLoss(
            f"the brokers have lost the marker that ends a transaction of {own.transactional_id!r} (KAFKA-20734):"
            f" {rows}. It is not known whether it was committed, and readers wait before its rows. Nothing new was"
            " written. Have an administrator decide: abort if the same rows were written again after them, commit if"
            f" they would be missing otherwise. {self._command(unknown)}",
            tag="DECISION_UNKNOWN",
        )

    def _command(self, lost: Mapping[TopicPartition, OpenTransaction]) -> str:
        kept = self._own.progress.name
        elsewhere = kept if kept != DEFAULT_TOPIC else None
        return heal_command(
            min(lost), lost[min(lost)].producer_id, self._own.transactional_id, progress_topic=elsewhere
        )


def _word(committed: bool) -> str:
    return "committed" if committed else "aborted"
