"""Commit or abort what is prepared: from any process, as often as needed (DESIGN rules 4, 12, 13).

The stored producer id and epoch end it. A repeated end is answered 0 while the coordinator remembers it; later, once
the id was used again or has expired, the markers after the rows say how it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from semel.errors import AbortAndRetry, ConfigError, DataLoss, Fenced, Retriable, SemelError
from semel.read.ranges import id_text, parse_id
from semel.read.raw_log import EndMarker, end_after
from semel.steps import TwoPhaseStep, reached
from semel.transaction.data_loss import check_rows_present, check_topics_unchanged, still_open
from semel.transaction.markers.wait import wait_for_markers
from semel.transaction.ownership import protocol_deadline
from semel.transaction.ticket import Written
from semel.transaction.two_phase.prepared import Prepared
from semel.wire.api.describe_transactions import OpenTransaction, marker_of, open_transactions, write_markers
from semel.wire.api.offsets import EARLIEST, list_offsets
from semel.wire.api.transactions import Identity, end
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.error_codes import name
from semel.wire.metadata import Leaders, TopicPartition, named

__all__ = ["abort", "abort_all", "await_end", "check_cluster", "commit", "commit_all", "raise_gravest"]

_OTHER_END = 48
#: For the messages of what is found missing before it is committed.
_STAYS_OPEN = "It is still prepared, and nothing of it is visible: abort it."


def commit(client: Client, prepared: Prepared, *, checked: bool = False) -> Identity | None:
    """Commit it, and return when readers see its rows. A second call does no harm.

    ``checked`` is whether its rows were seen to be there a moment ago. Returns the identity with which its id goes on,
    if the coordinator has named it.

    Raises :class:`DataLoss` where it was aborted, or its rows were deleted before: what was decided is lost; also
    where its rows and markers are gone, so that it cannot be known how it ended. :class:`Retriable` where the brokers
    do not say yet: call again. :class:`ConfigError` for a prepared transaction of another cluster.
    """
    check_cluster(client, prepared)
    if not prepared.rows:
        return None
    deadline = protocol_deadline(client)
    if not checked and still_open(client, prepared.identity, deadline):
        _check_rows_present(client, prepared, deadline)
    reached(TwoPhaseStep.COMMIT_SENT, prepared.transactional_id)
    committed, following = _end(client, prepared, deadline, commit=True)
    reached(TwoPhaseStep.COMMIT_ANSWERED, prepared.transactional_id)
    if not committed:
        raise DataLoss(
            f"the prepared transaction {prepared.transactional_id!r} was decided, and Kafka aborted it: it expired"
            f" (bounded), or another program aborted it. {sum(count for _, count in prepared.rows.values())} rows on"
            f" {named(prepared.rows)} are lost (producer id {prepared.producer_id}); an outbox's database has"
            " committed. Write these Kafka rows again by a producer of another id. If an outbox decided it, then call"
            " its forget(prepared).",
            tag="PREPARED_LOST",
        )
    last = {p: first + count - 1 for p, (first, count) in prepared.rows.items()}
    await_end(client, prepared.identity, following, prepared.rows, deadline, commit=True, last_offsets=last)
    return following


def abort(client: Client, prepared: Prepared) -> Identity | None:
    """Abort it. A second call does no harm.

    Returns what :func:`commit` returns. Raises :class:`ConfigError` where it was committed before: its rows are
    visible. :class:`Retriable` as :func:`commit`.
    """
    check_cluster(client, prepared)
    if not prepared.rows:
        return None
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
    await_end(client, prepared.identity, following, _existing(client, prepared, deadline), deadline, commit=False)
    return following


def commit_all(client: Client, decided: Iterable[Prepared], *, checked: bool = False) -> None:
    """Commit all of them. What one raises is raised once the others are ended, a :class:`DataLoss` before the rest."""
    _end_all(decided, lambda one: commit(client, one, checked=checked))


def abort_all(client: Client, prepared: Iterable[Prepared]) -> None:
    """Abort all of them, as :func:`commit_all` commits."""
    _end_all(prepared, lambda one: abort(client, one))


def _end_all(prepared: Iterable[Prepared], finish: Callable[[Prepared], object]) -> None:
    failed: list[SemelError] = []
    for one in prepared:
        try:
            finish(one)
        except SemelError as error:  # the others are decided too, and may expire
            failed.append(error)
    raise_gravest(failed)


def raise_gravest(failed: Sequence[SemelError]) -> None:
    """Raise one of these errors, if there are any: a :class:`DataLoss` before the rest, which it names."""
    if not failed:
        return
    gravest, *others = sorted(failed, key=lambda error: not isinstance(error, DataLoss))
    for other in others:
        gravest.add_note(f"Another one could not be ended either: {other}")
    raise gravest


def check_cluster(client: Client, prepared: Prepared) -> None:
    """Refuse a prepared transaction of another cluster."""
    if client.cluster != prepared.cluster:
        raise ConfigError(
            f"the prepared transaction {prepared.transactional_id!r} is of cluster {prepared.cluster}, and"
            f" bootstrap.servers leads to {client.cluster}. Nothing was changed. Correct the address.",
            tag="OTHER_CLUSTER",
        )


def _check_rows_present(client: Client, prepared: Prepared, deadline: Deadline) -> None:
    """Check that all rows are there: a broker commits what retention or a truncation has left, and says nothing."""
    ids = {name: parse_id(topic_id) for name, topic_id in prepared.topics.items()}
    check_topics_unchanged(client, prepared.rows.keys(), ids, (), deadline, _STAYS_OPEN)
    wrote = {p: Written(first, first + count - 1, count, 0) for p, (first, count) in prepared.rows.items()}
    try:
        # who led is not in the text: each leader is asked for the whole of the transaction
        check_rows_present(client, prepared.identity, wrote, {}, deadline, _STAYS_OPEN)
    except AbortAndRetry as error:
        raise Retriable(error.message, tag=error.tag) from None


def _end(client: Client, prepared: Prepared, deadline: Deadline, *, commit: bool) -> tuple[bool, Identity | None]:
    """Return whether it is committed, and the id's next identity where the coordinator has just ended it, or had.

    Raises :class:`Retriable` where that is not known yet, :class:`DataLoss` where it never will be.
    """
    answer = end(client, prepared.identity, commit=commit, deadline=deadline)
    if answer.code == 0:
        return commit, answer.identity
    if answer.code == _OTHER_END:
        return not commit, None
    while (committed := _by_markers(client, prepared, deadline, name(answer.code))) is None:
        if deadline.passed:
            raise Retriable(
                f"the prepared transaction {prepared.transactional_id!r} has ended (the coordinator answers"
                f" {name(answer.code)}), and no marker has come after its rows within {deadline.timeout_ms:.0f} ms. It"
                f" is not known whether it was committed. Look at {named(prepared.rows)} (`semel txn heal`), then call"
                " again.",
                tag="OUTCOME_UNKNOWN",
            )
        deadline.pause()
    return committed, None


def _by_markers(client: Client, prepared: Prepared, deadline: Deadline, answered: str) -> bool | None:
    """Return how it ended, by the markers after its rows; None where they have not come yet.

    Where some have come, those that are lost are written. Raises :class:`DataLoss` where rows and markers are gone.
    """
    there = _existing(client, prepared, deadline)
    markers = {p: end_after(client, p, prepared.producer_id, prepared.rows[p][0], deadline) for p in there}
    ends = {marker.commit for marker in markers.values() if marker is not None}
    if len(ends) == 1:
        committed = ends.pop()
        _heal_left(client, prepared, markers, deadline, commit=committed)
        return committed
    starts = list_offsets(client, dict.fromkeys(there, EARLIEST), read_committed=False, deadline=deadline)
    if not ends and any(start.offset <= prepared.rows[p][0] for p, start in starts.items()):
        return None
    evidence = "some of its partitions say committed, others aborted" if ends else "its rows and markers are deleted"
    raise DataLoss(
        f"it is not known how the prepared transaction {prepared.transactional_id!r} ended: {evidence}, and the"
        f" coordinator answers {answered}. Its rows on {named(prepared.rows)} may be lost. Look whether readers"
        " have had them, then remove its text from your store.",
        tag="OUTCOME_UNKNOWN",
    )


def _existing(client: Client, prepared: Prepared, deadline: Deadline) -> set[TopicPartition]:
    """Return the partitions of topics that are still those that were written."""
    topics = client.existing({topic for topic, _ in prepared.rows}, deadline)
    return {p for p in prepared.rows if p[0] in topics and id_text(topics[p[0]].id) == prepared.topics[p[0]]}


def _heal_left(
    client: Client,
    prepared: Prepared,
    markers: Mapping[TopicPartition, EndMarker | None],
    deadline: Deadline,
    *,
    commit: bool,
) -> None:
    unmarked = {partition for partition, marker in markers.items() if marker is None}
    if unmarked:
        opened = open_transactions(client, unmarked, deadline)
        lost = {p: one for p, rows in opened.items() for one in rows if one.producer_id == prepared.producer_id}
        _LostMarkers(client, prepared.identity, commit=commit)(lost, client.leaders(lost, deadline))


def await_end(
    client: Client,
    ended: Identity,
    following: Identity | None,
    partitions: Collection[TopicPartition],
    deadline: Deadline,
    *,
    commit: bool,
    last_offsets: Mapping[TopicPartition, int] | None = None,
) -> None:
    """Wait until readers see the end of the transaction ``ended``, and write the markers that brokers have lost.

    Where its markers told how it ended, there is no identity ``following``, and nothing to wait for.
    """
    if following is None:
        return
    try:
        # rows of a later epoch: its producer has seen that this one is over everywhere, and has begun the next one
        with suppress(Fenced):
            wait_for_markers(
                client,
                partitions,
                following,
                {ended.producer_id},
                last_offsets=last_offsets or {},
                deadline=deadline,
                heal=_LostMarkers(client, ended, commit=commit),
            )
    except AbortAndRetry as error:  # it has ended: what may be called again is this, and not the work
        raise Retriable(error.message, tag=error.tag) from error


class _LostMarkers:
    """Write the markers that brokers have lost, as it was decided (PROTOCOL 5)."""

    patience_s = 0.25

    def __init__(self, client: Client, ended: Identity, *, commit: bool) -> None:
        self._client, self._ended, self._commit = client, ended, commit

    def __call__(self, lost: Mapping[TopicPartition, OpenTransaction], leaders: Leaders) -> None:
        """Write those of this very transaction: what else is open there is another's."""
        mine = {
            partition: marker_of(opened, commit=self._commit)
            for partition, opened in lost.items()
            if (opened.producer_id, opened.epoch) == (self._ended.producer_id, self._ended.epoch)
        }
        if mine:
            write_markers(self._client, mine, leaders, protocol_deadline(self._client))
