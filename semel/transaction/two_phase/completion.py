"""Commit or abort what is prepared: from any process, as often as needed (DESIGN rules 4, 12, 13).

The stored producer id and epoch end it. A repeated end is answered 0 while the coordinator remembers it; later, once
the id was used again or has expired, the markers behind the rows tell how it ended.
"""

from __future__ import annotations

from collections.abc import Mapping

from semel.errors import ConfigError, DataLoss, Retriable
from semel.read.ranges import id_text
from semel.read.raw_log import end_behind
from semel.steps import TwoPhaseStep, reached
from semel.transaction.data_loss import still_open
from semel.transaction.markers.wait import wait_for_markers
from semel.transaction.ownership import protocol_deadline
from semel.transaction.two_phase.prepared import Prepared
from semel.wire.api.offsets import EARLIEST, list_offsets
from semel.wire.api.transactions import Identity, OpenTransaction, end, marker_of, write_markers
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.error_codes import name
from semel.wire.metadata import Leaders, TopicPartition, named

__all__ = ["abort", "commit"]

_OTHER_END = 48


def commit(client: Client, prepared: Prepared) -> None:
    """Commit it, and return when readers see its rows. A second call does no harm.

    Raises :class:`DataLoss` where it was aborted, or its rows were deleted before: what was decided is lost.
    :class:`Retriable` tagged OUTCOME_UNKNOWN where nobody can tell: call again. :class:`ConfigError` for a prepared
    transaction of another cluster.
    """
    _check_cluster(client, prepared)
    if not prepared.rows:
        return
    deadline = protocol_deadline(client)
    if still_open(client, prepared.identity, deadline):
        _check_rows_present(client, prepared, deadline)
    reached(TwoPhaseStep.COMMIT_SENT, prepared.transactional_id)
    committed, following = _end(client, prepared, deadline, commit=True)
    reached(TwoPhaseStep.COMMIT_ANSWERED, prepared.transactional_id)
    if not committed:
        raise DataLoss(
            f"the prepared transaction {prepared.transactional_id!r} was aborted, and it had been decided to commit it:"
            f" {sum(count for _, count in prepared.rows.values())} rows on {named(prepared.rows)} are lost (producer id"
            f" {prepared.producer_id}). It expired (bounded), or somebody aborted it. Write these rows again.",
            tag="PREPARED_LOST",
        )
    _await_markers(client, prepared, following, deadline, commit=True)


def abort(client: Client, prepared: Prepared) -> None:
    """Abort it. A second call does no harm.

    Raises :class:`ConfigError` where it was committed before: its rows are visible. :class:`Retriable` as
    :func:`commit`.
    """
    _check_cluster(client, prepared)
    if not prepared.rows:
        return
    deadline = protocol_deadline(client)
    reached(TwoPhaseStep.ABORT_SENT, prepared.transactional_id)
    committed, following = _end(client, prepared, deadline, commit=False)
    reached(TwoPhaseStep.ABORT_ANSWERED, prepared.transactional_id)
    if committed:
        raise ConfigError(
            f"the prepared transaction {prepared.transactional_id!r} was committed before, and cannot be aborted. Its"
            " rows are visible. Correct them by new rows.",
            tag="COMMITTED_BEFORE",
        )
    _await_markers(client, prepared, following, deadline, commit=False)


def _check_cluster(client: Client, prepared: Prepared) -> None:
    if client.cluster != prepared.cluster:
        raise ConfigError(
            f"the prepared transaction {prepared.transactional_id!r} is of cluster {prepared.cluster}, and"
            f" bootstrap.servers leads to {client.cluster}. Nothing was changed. Correct the address.",
            tag="OTHER_CLUSTER",
        )


def _check_rows_present(client: Client, prepared: Prepared, deadline: Deadline) -> None:
    """A broker commits what retention has left of a transaction, and says nothing."""
    known = client.existing({topic for topic, _ in prepared.rows}, deadline)
    gone = {p for p in prepared.rows if p[0] not in known or id_text(known[p[0]].id) != prepared.topics[p[0]]}
    there = prepared.rows.keys() - gone
    starts = list_offsets(client, dict.fromkeys(there, EARLIEST), read_committed=False, deadline=deadline)
    gone |= {p for p in there if starts[p].offset > prepared.rows[p][0]}
    if gone:
        raise DataLoss(
            f"rows of the prepared transaction {prepared.transactional_id!r} on {named(gone)} were deleted before it"
            " was committed (retention, or the topic is another one). It is still open, and nothing of it is visible."
            " Abort it, then write its rows again.",
            tag="ROWS_GONE",
        )


def _end(client: Client, prepared: Prepared, deadline: Deadline, *, commit: bool) -> tuple[bool, Identity | None]:
    """Return whether it is committed, and the id's next identity where the coordinator has just ended it, or had.

    Raises :class:`Retriable` where nobody can tell.
    """
    answer = end(client, prepared.identity, commit=commit, deadline=deadline)
    if answer.code == 0:
        return commit, answer.identity
    if answer.code == _OTHER_END:
        return not commit, None
    markers = (
        end_behind(client, partition, prepared.producer_id, first, deadline)
        for partition, (first, _) in prepared.rows.items()
    )
    ends = {marker.commit for marker in markers if marker is not None}
    if len(ends) == 1:
        return ends.pop(), None
    raise Retriable(
        f"nobody can tell how the prepared transaction {prepared.transactional_id!r} ended: the coordinator answers"
        f" {name(answer.code)}, and no marker is left behind its rows. It is not known whether it was committed. Look"
        f" at {named(prepared.rows)}: its rows, if they are there, begin at the offsets in its text.",
        tag="OUTCOME_UNKNOWN",
    )


def _await_markers(
    client: Client, prepared: Prepared, following: Identity | None, deadline: Deadline, *, commit: bool
) -> None:
    """Wait until readers see the end. Where its markers told how it ended, there is nothing to wait for."""
    if following is None:
        return
    last = {p: first + count - 1 for p, (first, count) in prepared.rows.items()} if commit else {}
    wait_for_markers(
        client,
        prepared.rows.keys(),
        following,
        {prepared.producer_id},
        last_offsets=last,
        deadline=deadline,
        heal=_LostMarkers(client, prepared, commit=commit),
    )


class _LostMarkers:
    """Write the markers that brokers have lost, as it was decided (PROTOCOL 5)."""

    patience_s = 0.25

    def __init__(self, client: Client, prepared: Prepared, *, commit: bool) -> None:
        self._client, self._prepared, self._commit = client, prepared, commit

    def __call__(self, lost: Mapping[TopicPartition, OpenTransaction], leaders: Leaders) -> None:
        """Write those of this very transaction: what else is open there is another's."""
        mine = {
            partition: marker_of(opened, commit=self._commit)
            for partition, opened in lost.items()
            if (opened.producer_id, opened.epoch) == (self._prepared.producer_id, self._prepared.epoch)
        }
        if mine:
            write_markers(self._client, mine, leaders, protocol_deadline(self._client))
