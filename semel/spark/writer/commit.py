"""After the tasks of a batch: the decision, which is one commit of the owner, then the end of each part.

The commit of the owner's transaction, with the progress record that enlists the parts, decides for all of them. From
then on only its outcome counts: whoever takes the prefix over next ends the parts the same way.
"""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Sequence

from semel.errors import AbortAndRetry, Fenced, SemelError
from semel.spark.worker_client import client as worker_client
from semel.spark.writer.options import WriterOptions
from semel.spark.writer.plan import Decision
from semel.spark.writer.task import Part
from semel.steps import WriterStep, reached
from semel.transaction.ownership import protocol_deadline
from semel.transaction.producer import Producer
from semel.transaction.progress.reader import outcome_of
from semel.transaction.progress.topic import ProgressTopic
from semel.transaction.transactional_id import IdKind
from semel.transaction.two_phase.completion import abort_all, commit_all
from semel.transaction.two_phase.prepared import Prepared
from semel.transaction.two_phase.recovery import abort_listed, identity_of, open_prepared
from semel.wire.api.describe_transactions import TransactionDescription
from semel.wire.api.transactions import end
from semel.wire.client import Client

__all__ = ["abort_parts", "commit_parts", "decision_of"]

log = logging.getLogger("semel.spark")


def commit_parts(options: WriterOptions, parts: Sequence[Part], batch: int) -> None:
    """Decide for all parts of a batch, and end them. Returns when readers see their rows.

    Raises :class:`AbortAndRetry` if the decision was no, :class:`Fenced` if another owner is there, and
    :class:`~semel.errors.Retriable` tagged OUTCOME_UNKNOWN if the outcome is unknown: the next start finds out.
    """
    decision = _decision(parts, batch)
    if not all(part.write for part in parts):
        return
    began = time.monotonic()
    client = worker_client(options.config)
    prepared = [part.prepared for part in parts if part.prepared is not None]
    reached(WriterStep.COMMITTING, str(batch))
    # before the decision: what a successor's tasks begin is not in this list
    listed = open_prepared(client, options.sink.prefix, IdKind.TASK)
    _decide(client, options, decision, prepared)
    reached(WriterStep.DECIDED, str(batch))
    commit_all(client, prepared, checked=True)
    decided = {one.identity for one in prepared}
    _abort_listed(client, [one for one in listed if identity_of(one) not in decided])
    _note_ended(client, options, decision)
    reached(WriterStep.PARTS_COMMITTED, str(batch))
    rows = sum(count for one in prepared for _, count in one.rows.values())
    log.info(
        "batch %d of %r: %d rows of %d tasks, committed in %.0f ms",
        batch,
        options.sink.prefix,
        rows,
        len(parts),
        (time.monotonic() - began) * 1000,
    )


def _decide(client: Client, options: WriterOptions, decision: Decision, prepared: Sequence[Prepared]) -> None:
    """Commit the owner's transaction. Where another owner has come meanwhile, its log says whether it was committed."""
    sink, identity = options.sink, decision.handed.identity
    producer = Producer(client, sink.prefix, scope=decision.scope, progress_topic=sink.progress_topic)
    producer.receive(decision.handed)
    try:
        with producer, producer.transaction() as txn:
            if sink.group is not None and decision.offsets:
                txn.send_offsets(decision.offsets, sink.group)
            txn.enlist(prepared)
            txn.commit(decision.progress)
    except Fenced:
        if not outcome_of(client, identity, decision.scope, sink.progress_topic):
            _abort_all(client, prepared)  # no owner can decide for them any more, and readers would wait
            raise


def abort_parts(options: WriterOptions, decision: Decision) -> None:
    """Abort a batch whose tasks or whose commit failed, unless it was decided: also what tasks still write."""
    client, identity = worker_client(options.config), decision.handed.identity
    reached(WriterStep.ABORTING, identity.transactional_id)
    listed = open_prepared(client, options.sink.prefix, IdKind.TASK)
    # with nothing open, the coordinator checks the identity, and raises its epoch: no process can decide with it then
    answer = end(client, identity, commit=False, deadline=protocol_deadline(client))
    if answer.code == 0:
        _abort_listed(client, listed)
        reached(WriterStep.PARTS_ABORTED, identity.transactional_id)


def _abort_listed(client: Client, listed: Sequence[TransactionDescription]) -> None:
    """Abort what no process can decide any more: attempts that lost, and tasks that came late."""
    failed: list[SemelError] = []
    abort_listed(client, listed, failed)
    for error in failed:  # the next plan aborts what is left
        log.warning("a part of a batch that was not decided is still open: %s", error.message)


def _abort_all(client: Client, undecided: Sequence[Prepared]) -> None:
    try:
        abort_all(client, undecided)
    except SemelError as error:  # the next plan aborts what is left
        log.warning("some parts of a batch that was not decided are still open: %s", error.message)


def _note_ended(client: Client, options: WriterOptions, decision: Decision) -> None:
    """Spare the next owner the look for parts whose rows and ids may be gone by then."""
    identity, sink = decision.handed.identity, options.sink
    topic = ProgressTopic(client, sink.prefix, decision.scope, sink.progress_topic)
    topic.topic_id = decision.handed.progress_topic
    try:
        topic.record_ended(identity.producer_id, identity.epoch)
    except SemelError as error:  # the batch is committed; the next plan finds its parts ended
        log.warning("that the parts of a batch have ended was not noted: %s", error.message)


def decision_of(parts: Sequence[Part | None], batch: int) -> Decision | None:
    """Return what the parts of a failed batch say of its plan. None without any, or if it was not to be written."""
    there = [part for part in parts if part is not None]
    return _decision(there, batch) if there and all(part.write for part in there) else None


def _decision(parts: Sequence[Part], batch: int) -> Decision:
    decisions = {part.decision for part in parts}
    if len(decisions) != 1 or any(part.batch != batch for part in parts):
        raise AbortAndRetry(
            f"the tasks of batch {batch} come from {len(decisions)} plans. Nothing of this batch is visible. Start the"
            " query again; if another driver uses this checkpoint, stop it.",
            tag="OTHER_BATCH",
        )
    decision: Decision = pickle.loads(decisions.pop())
    return decision
