"""Recovery: commit what was decided, abort the rest. The first call of the next start (DESIGN rule 13).

The order is the point. First list what is open, then ask for the decisions, then end only what was listed, by the
epochs listed. A recovery that froze in between cannot end what its successor prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from semel.errors import ConfigError, SemelError
from semel.steps import TwoPhaseStep, reached
from semel.transaction.ownership import protocol_deadline
from semel.transaction.transactional_id import IdKind, check_prefix, parse
from semel.transaction.two_phase.completion import await_end, check_cluster, commit, raise_gravest
from semel.transaction.two_phase.prepared import Prepared
from semel.wire.api.describe_transactions import TransactionDescription, describe_all
from semel.wire.api.transactions import Identity, end
from semel.wire.client import Client

__all__ = ["Recovered", "abort_listed", "committed_units", "identity_of", "is_newer", "open_prepared", "recover"]


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of a recovery: the committed prepared transactions, and the aborted ids.

    What had ended by itself since it was listed is in neither.
    """

    committed: Sequence[Prepared]
    aborted: Sequence[str]


def recover(
    client: Client, prefix: str, decide: Callable[[Sequence[TransactionDescription]], Iterable[Prepared]]
) -> Recovered:
    """List the open transactions of ``prefix``, commit all that ``decide`` returns, and abort the others listed.

    ``decide`` gets what was found and returns the decided ones from the caller's store, found or not: what has expired
    is in no list. It is the place to stop a predecessor from deciding any more, before it reads. Raises
    :class:`ConfigError` for a prepared transaction of another prefix or cluster, before any is ended. What ending
    one raises is raised once all others are ended, a :class:`DataLoss` before the rest.
    """
    check_prefix(prefix)
    units = open_prepared(client, prefix, IdKind.UNIT)
    reached(TwoPhaseStep.LISTED, prefix)
    decided = list(decide(units))
    for prepared in decided:
        check_cluster(client, prepared)
        if parse(prepared.transactional_id).prefix != prefix:
            raise ConfigError(
                f"{prepared.transactional_id!r} is no transaction of {prefix!r}. Nothing was changed. Return only what"
                " was decided under this prefix.",
                tag="OTHER_PREFIX",
            )
    reached(TwoPhaseStep.DECIDED, prefix)
    failed: list[SemelError] = []
    for prepared in decided:
        try:
            commit(client, prepared)
        except SemelError as error:  # the others are decided too, and may expire
            failed.append(error)
    kept = {prepared.identity for prepared in decided}
    aborted = abort_listed(client, [one for one in units if identity_of(one) not in kept], failed)
    raise_gravest(failed)
    return Recovered(decided, sorted(aborted))


def open_prepared(client: Client, prefix: str, kind: IdKind) -> list[TransactionDescription]:
    """Return the transactions of ``prefix`` that are prepared, or may still be: those of its tasks or its units."""
    return describe_all(client, states=("Ongoing",), wanted=_of_prefix(prefix, kind))


def committed_units(client: Client, prefix: str) -> list[Identity]:
    """Return the newest unit of each id of ``prefix`` whose last transaction was committed, as far as Kafka knows it.

    The coordinator raises the epoch at each end. At the highest one it takes another producer id, and the epoch here is
    -1 then.
    """
    return [
        Identity(description.transactional_id, description.producer_id, description.epoch - 1)
        for description in describe_all(
            client, states=("PrepareCommit", "CompleteCommit"), wanted=_of_prefix(prefix, IdKind.UNIT)
        )
    ]


def is_newer(unit: Identity, newest: Identity | None) -> bool:
    """Return True if Kafka's newest unit of an id is later than ``newest``, the newest decided one."""
    if newest is None:
        return True
    if unit.producer_id == newest.producer_id:
        return unit.epoch > newest.epoch
    return unit.epoch >= 0  # an id that has expired, or has used up its epochs, has another producer id


def _of_prefix(prefix: str, kind: IdKind) -> Callable[[str], bool]:
    def wanted(transactional_id: str) -> bool:
        name = parse(transactional_id)
        return name.prefix == prefix and name.kind is kind

    return wanted


def identity_of(description: TransactionDescription) -> Identity:
    """Return the identity that ends it."""
    return Identity(description.transactional_id, description.producer_id, description.epoch)


def abort_listed(client: Client, listed: Sequence[TransactionDescription], failed: list[SemelError]) -> list[str]:
    """Abort these, by the epochs listed, and wait until readers are past them. Returns the ids that were aborted here.

    All ends are sent before the first one is awaited. What could not be ended is added to ``failed``.
    """
    ended: list[tuple[TransactionDescription, Identity]] = []
    for description in listed:
        reached(TwoPhaseStep.ABORT_SENT, description.transactional_id)
        try:
            answer = end(client, identity_of(description), commit=False, deadline=protocol_deadline(client))
        except SemelError as error:
            failed.append(error)
            continue
        reached(TwoPhaseStep.ABORT_ANSWERED, description.transactional_id)
        if answer.code == 0:  # any other answer: it has ended since it was listed
            ended.append((description, answer.identity))
    there = client.existing(
        {topic for description, _ in ended for topic, _ in description.partitions}, client.deadline()
    )
    for description, following in ended:
        partitions = {(topic, index) for topic, index in description.partitions if topic in there}
        try:
            await_end(client, identity_of(description), following, partitions, protocol_deadline(client), commit=False)
        except SemelError as error:
            failed.append(error)
    return [description.transactional_id for description, _ in ended]
