"""The producer of prepared transactions: an id of this process alone for each that is open (DESIGN rule 13).

Ids are ``<prefix>.unit.<uuid>.<k>``, and ``<prefix>.task.<uuid>.<k>`` in tasks of Spark. An id is reused once its last
transaction has ended everywhere; until then the next transaction takes another ``k``. If this producer has ended it
(:meth:`TwoPhaseProducer.commit`), the id continues with the identity in the answer of EndTxn, without InitProducerId.
After a fork, or a lost answer, new ids are used.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from semel.errors import ConfigError, Retriable, SemelError
from semel.steps import TwoPhaseStep, reached
from semel.transaction.data_loss import still_open
from semel.transaction.output_topics import OutputTopics
from semel.transaction.ownership import DEFAULT_TIMEOUT_MS, longest_timeout_ms, protocol_deadline
from semel.transaction.takeover import check_brokers
from semel.transaction.transactional_id import IdKind, check_prefix, prepared_id
from semel.transaction.two_phase import completion
from semel.transaction.two_phase.prepared import Prepared
from semel.transaction.two_phase.unit import Unit
from semel.wire.api.describe_transactions import describe, open_transactions
from semel.wire.api.transactions import Identity
from semel.wire.api.two_phase import ANSWER_LOST, init_unit
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition, named

__all__ = ["Mode", "TwoPhaseProducer"]

log = logging.getLogger("semel.transaction")

Mode = Literal[True, "bounded"]

_ENDED = ("CompleteCommit", "CompleteAbort", "Empty")
#: So many ids that were not free yet are looked at before a new one is taken.
_LOOKS = 2
#: How long an identity is reused: brokers forget idle ids, by default after a week.
_RESTED_S = 3_600.0
#: A transaction that stays prepared for so long holds readers up: it was forgotten, or the decider is stuck.
_LONG_PREPARED_S = 60.0
#: How long to ask about it.
_SHORT_MS = 1_000
#: What prepare() has just seen need not be looked at again: no longer than asking itself may take.
_JUST_NOW_S = 0.25


@dataclass(frozen=True, slots=True)
class _Used:
    """An id whose last transaction was ``prepared``, or aborted before. Its rows were there at ``looked`` (monotonic
    seconds).
    """

    identity: Identity
    partitions: frozenset[TopicPartition]
    looked: float
    prepared: bool


@dataclass(frozen=True, slots=True)
class _Ready:
    """An id whose last transaction was seen to have ended everywhere, with the identity of the next one."""

    identity: Identity
    since: float


class TwoPhaseProducer:
    """Begins prepared transactions under a prefix. Creating it sends nothing. One thread at a time."""

    def __init__(self, client: Client, prefix: str, mode: Mode, *, kind: IdKind = IdKind.UNIT) -> None:
        self._client = client
        self._prefix = check_prefix(prefix)
        self._kind = kind
        self._two_phase = mode is True
        self._process = -1
        self._uuid = ""
        self._next = 0
        self._used: deque[_Used] = deque()
        self._ready: deque[_Ready] = deque()
        self._outputs = OutputTopics(client)
        self._late: set[Identity] = set()
        #: Of the transactions; None until the brokers were asked what they take.
        self._timeout_ms: int | None = None

    def __enter__(self) -> TwoPhaseProducer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def transaction(self, *, first: int | None = None, keys: bool = True) -> Unit:
        """Begin a transaction. Rows without a key begin at partition ``first``; without ``keys``, all do.

        Raises :class:`ConfigError` or :class:`~semel.errors.Unsupported` where the brokers do not take two-phase
        commit, :class:`Retriable` if they do not answer.
        """
        if self._process != os.getpid():
            self._process, self._uuid, self._next = os.getpid(), str(uuid.uuid4()), 0
            self._used.clear()
            self._ready.clear()
            self._late.clear()
        self._warn_of_waiting()
        deadline = self._deadline()
        if self._timeout_ms is None:
            check_brokers(self._client, deadline)
            self._timeout_ms = self._find_timeout_ms(deadline)
        timeout_ms = self._timeout_ms
        began_ms = int(time.time() * 1000)
        identity = self._next_identity() or self._new_identity(timeout_ms, deadline)

        def ended(partitions: set[TopicPartition], prepared: Prepared | None, looked: float) -> None:
            self._used.append(_Used(identity, frozenset(partitions), looked, prepared is not None))
            if prepared is None:
                self._outputs.forget()

        until_ms = None if self._two_phase else began_ms + timeout_ms
        return Unit(self._client, identity, until_ms, self._outputs, self._deadline, ended, first=first, keys=keys)

    def commit(self, prepared: Prepared) -> None:
        """Commit what this producer has prepared. As :meth:`Cluster.commit`, with fewer requests now and in the next
        transaction.
        """
        used = self._find(prepared)
        just_now = used is not None and time.monotonic() - used.looked < _JUST_NOW_S
        self._keep(used, completion.commit(self._client, prepared, checked=just_now))

    def abort(self, prepared: Prepared) -> None:
        """Abort what this producer has prepared. As :meth:`Cluster.abort`, with fewer requests in the next
        transaction.
        """
        self._keep(self._find(prepared), completion.abort(self._client, prepared))

    def _warn_of_waiting(self) -> None:
        """Warn, once, of what was prepared a while ago and is open still. Each call asks about one at most."""
        now = time.monotonic()
        late = (one for one in self._used if one.prepared and one.partitions and now - one.looked > _LONG_PREPARED_S)
        one = next((one for one in late if one.identity not in self._late), None)
        if one is None:
            return
        self._late.add(one.identity)
        with suppress(SemelError):  # a warning is not worth a transaction
            if still_open(self._client, one.identity, self._client.deadline(_SHORT_MS)):
                log.warning(
                    "the transaction %r was prepared %.0f s ago and is still open. Readers of %s wait for it. Commit or"
                    " abort it; `semel txn list --prepared` shows all of them.",
                    one.identity.transactional_id,
                    now - one.looked,
                    named(one.partitions),
                )

    def _find(self, prepared: Prepared) -> _Used | None:
        if self._process != os.getpid():  # the ids are those of the process that was forked
            return None
        return next((one for one in self._used if one.identity == prepared.identity), None)

    def _keep(self, used: _Used | None, following: Identity | None) -> None:
        if used is not None and following is not None:
            self._used.remove(used)
            self._ready.append(_Ready(following, time.monotonic()))

    def _next_identity(self) -> Identity | None:
        """Return the identity of an id that this producer has seen to its end a short while ago."""
        while self._ready:
            ready = self._ready.popleft()
            if time.monotonic() - ready.since < _RESTED_S:
                return ready.identity
        return None

    def _new_identity(self, timeout_ms: int, deadline: Deadline) -> Identity:
        while True:
            transactional_id = self._free_id(deadline)
            try:
                identity = init_unit(self._client, transactional_id, timeout_ms, deadline, two_phase=self._two_phase)
            except Retriable as error:
                if error.tag != ANSWER_LOST or deadline.passed:
                    raise
                deadline.pause()  # that name may be taken at any later moment: never again
                continue
            reached(TwoPhaseStep.INITIALISED, transactional_id)
            return identity

    def close(self) -> None:
        """Close. Prepared transactions stay prepared."""

    def _free_id(self, deadline: Deadline) -> str:
        for _ in range(min(_LOOKS, len(self._used))):
            used = self._used.popleft()
            if self._is_free(used, deadline):
                return used.identity.transactional_id
            self._used.append(used)
        self._next += 1
        return prepared_id(self._prefix, self._kind, self._uuid, self._next - 1)

    def _is_free(self, used: _Used, deadline: Deadline) -> bool:
        """Return whether its last transaction has ended, by the coordinator's word and on each partition."""
        description = describe(self._client, used.identity.transactional_id, deadline)
        if (
            description is None
            or description.state not in _ENDED
            or (used.partitions and description.epoch <= used.identity.epoch)
        ):
            return False
        opened = open_transactions(self._client, used.partitions, deadline) if used.partitions else {}
        return not any(one.producer_id == used.identity.producer_id for rows in opened.values() for one in rows)

    def _find_timeout_ms(self, deadline: Deadline) -> int:
        """Return the set timeout, or 15 minutes, or the brokers' maximum if that is less (DESIGN rule 10)."""
        most = longest_timeout_ms(self._client, deadline)
        timeout_ms = self._client.config.transaction_timeout_ms
        if timeout_ms is not None and timeout_ms > most:
            raise ConfigError(
                f"transaction.timeout.ms={timeout_ms} is above the brokers' transaction.max.timeout.ms={most}. Nothing"
                " was written. Lower the first, or raise the second.",
                tag="TIMEOUT_TOO_LONG",
            )
        return timeout_ms or min(DEFAULT_TIMEOUT_MS, most)

    def _deadline(self) -> Deadline:
        return protocol_deadline(self._client)
