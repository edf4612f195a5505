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
from semel.transaction.two_phase.completion import abort_all, commit_all
from semel.transaction.two_phase.prepared import Prepared
from semel.wire.api.transactions import end
from semel.wire.client import Client

__all__ = ["abort_parts", "commit_parts"]

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
    _decide(client, options, decision, prepared)
    reached(WriterStep.DECIDED, str(batch))
    commit_all(client, prepared, checked=True)
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


def abort_parts(options: WriterOptions, parts: Sequence[Part | None], batch: int) -> None:
    """Abort a batch whose tasks or whose commit failed, unless it was decided. Without a message there is nothing to
    do: the next plan aborts what is left.
    """
    there = [part for part in parts if part is not None]
    if not there or not all(part.write for part in there):
        return
    client, decision = worker_client(options.config), _decision(there, batch)
    identity = decision.handed.identity
    reached(WriterStep.ABORTING, str(batch))
    # with nothing open, the coordinator checks the identity, and raises its epoch: no process can decide with it then
    answer = end(client, identity, commit=False, deadline=protocol_deadline(client))
    if answer.code == 0 or not outcome_of(client, identity, decision.scope, options.sink.progress_topic):
        _abort_all(client, [part.prepared for part in there if part.prepared is not None])
        reached(WriterStep.PARTS_ABORTED, str(batch))


def _abort_all(client: Client, undecided: Sequence[Prepared]) -> None:
    try:
        abort_all(client, undecided)
    except SemelError as error:  # the next plan aborts what is left
        log.warning("some parts of a batch that was not decided are still open: %s", error.message)


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
