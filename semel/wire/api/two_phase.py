"""InitProducerId for an id that may hold a prepared transaction: sent once (DESIGN rule 13).

A request that arrives late, after its connection broke, would destroy a transaction that was prepared since. So a lost
answer raises, and the caller takes another id. A broker that answers "not now" has not done it, and is asked again.
"""

from __future__ import annotations

from kafka.protocol.producer import InitProducerIdRequest

from semel.errors import ConfigError, Retriable, Unsupported
from semel.wire import error_codes
from semel.wire.api.transactions import Identity
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.target import TransactionCoordinator

__all__ = ["ANSWER_LOST", "init_unit"]

#: The tag of a lost answer: the id must not be used any more.
ANSWER_LOST = "ANSWER_LOST"
_NOT_ALLOWED = 53
_TWO_PHASE_VERSION = 6


def init_unit(
    client: Client, transactional_id: str, timeout_ms: int, deadline: Deadline, *, two_phase: bool
) -> Identity:
    """Take an id of this process for one transaction. With ``two_phase`` the brokers never abort it.

    Raise :class:`Unsupported` or :class:`ConfigError` for brokers that do not take two-phase commit. Raise
    :class:`Retriable` tagged ANSWER_LOST if it is not known whether the request arrived.
    """
    target = TransactionCoordinator(transactional_id)
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
        enable2_pc=two_phase,
        keep_prepared_txn=False,
    )
    while True:
        connection = client.connect(target, deadline)  # nothing is sent yet: this may be repeated
        if two_phase and not connection.versions.offers_two_phase_commit:
            raise Unsupported(
                f"the broker at {connection.address} does not offer two-phase commit. Nothing was written. Set"
                " unstable.api.versions.enable=true and transaction.two.phase.commit.enable=true on every broker (4.1"
                ' or newer), or use two_phase="bounded".',
                tag="TWO_PHASE_OFF",
            )
        lowest, highest = (_TWO_PHASE_VERSION, _TWO_PHASE_VERSION) if two_phase else (4, 5)
        try:
            answer = connection.call(request, connection.versions.pick(InitProducerIdRequest, lowest, highest))
        except Retriable as error:
            client.forget(target)
            raise Retriable(error.message, tag=ANSWER_LOST) from None
        if answer.error_code == 0:
            return Identity(transactional_id, answer.producer_id, answer.producer_epoch)
        if answer.error_code == _NOT_ALLOWED and two_phase:
            raise ConfigError(
                "the cluster refuses two-phase commit (TRANSACTIONAL_ID_AUTHORIZATION_FAILED). Nothing was written."
                " Either transaction.two.phase.commit.enable is false on its brokers, or this login lacks the right"
                f' TWO_PHASE_COMMIT or Write on {transactional_id!r}. Grant it, or use two_phase="bounded".',
                tag="TWO_PHASE_OFF",
            )
        if not error_codes.of("InitProducerId", answer.error_code).temporary:
            subject = f"taking transactional id {transactional_id!r}"
            raise error_codes.error("InitProducerId", answer.error_code, subject, "Nothing was written.")
        client.forget(target)
        if deadline.passed:
            subject = f"transactional id {transactional_id!r} could not be taken within {deadline.timeout_ms:.0f} ms"
            raise error_codes.given_up(subject, error_codes.name(answer.error_code), "Nothing was written.")
        deadline.pause()
