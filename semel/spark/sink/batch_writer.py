"""One DataFrame in one transaction: placed, written by tasks with tickets, proven, committed.

The path of every row that leaves Spark (PROTOCOL 3).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from semel.errors import AbortAndRetry, Retriable
from semel.records.codecs import Codec
from semel.spark.jvm import lineage
from semel.spark.metrics.meter import Meter, TopicTotals
from semel.spark.sink import write_stage
from semel.spark.sink.job_timeout import cancel_jobs_after
from semel.spark.sink.options import SinkOptions
from semel.spark.sink.output_ids import OutputCheck, output_ids
from semel.spark.sink.placement import Placement, place
from semel.spark.sink.schema import check_columns
from semel.spark.sink.stage_retries import FORGOTTEN, STALE, Proof
from semel.steps import SinkStep, reached
from semel.transaction.output_topics import describe_output_topics, non_transactional_tickets
from semel.transaction.producer import Producer
from semel.transaction.progress.record import Progress
from semel.transaction.ticket import Receipt
from semel.transaction.transaction import Transaction
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["BatchResult", "Work", "write_plain", "write_with_retries"]

log = logging.getLogger("semel.spark")

#: The outcome of the transaction is unknown; or a retry would read the same torn rows.
_NOT_AGAIN = ("OUTCOME_UNKNOWN", STALE, FORGOTTEN)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a batch: written rows by topic, milliseconds from begin to commit, and the number of repeated
    tries.
    """

    wrote: Mapping[str, TopicTotals]
    milliseconds: float
    retries: int = 0

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(wrote.rows for wrote in self.wrote.values())

    @property
    def size(self) -> int:
        """The bytes of their record batches."""
        return sum(wrote.size for wrote in self.wrote.values())


@dataclass(frozen=True, slots=True)
class Work:
    """One batch: its rows, and what its transaction says besides them.

    ``offsets`` are committed to ``group``, if there is one; ``again`` is whether the batch may be run again in this
    call. ``check`` compares the output topics with the batch before.
    """

    df: DataFrame
    number: int
    progress: Progress
    again: bool
    group: str | None = None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    check: OutputCheck | None = None


def write_with_retries(
    client: Client, producer: Producer, options: SinkOptions, work: Work, meter: Meter
) -> BatchResult:
    """Write the batch exactly once. Run it again up to ``maxBatchRetries`` times, if that is allowed. Count and log
    each retry.

    Raises :class:`AbortAndRetry` or :class:`Retriable` if that did not help. Raises it at once if a retry cannot help:
    a batch with state, because the state of an aborted run would stay (DESIGN rule 2); an unknown outcome
    (OUTCOME_UNKNOWN); a torn shuffle that Spark keeps (STALE_SHUFFLE); or jobs that Spark has forgotten
    (BOOKS_FORGOTTEN).
    """
    retries = 0
    proof = Proof(work.df, options.prefix, run=work.progress.run)
    while True:
        began = time.monotonic()
        try:
            wrote = _write_once(client, producer, options, work, proof)
        except (AbortAndRetry, Retriable) as error:
            if not work.again or retries >= options.retries or error.tag in _NOT_AGAIN:
                raise
            retries += 1
            proof.next_attempt()
            meter.again()
            log.warning(
                "batch %d of %r is run again (%d of %d): %s",
                work.number,
                options.prefix,
                retries,
                options.retries,
                error,
            )
            continue
        return BatchResult(wrote, (time.monotonic() - began) * 1000, retries)


def _write_once(
    client: Client, producer: Producer, options: SinkOptions, work: Work, proof: Proof
) -> dict[str, TopicTotals]:
    placement = _placed(client, options, work)
    ids = output_ids(placement.topics)
    if work.check is not None:
        work.check.check(ids)
    work = replace(work, progress=replace(work.progress, outputs=work.progress.outputs or ids))
    with producer.transaction() as txn:
        tickets = txn.tickets(placement.shares, placement.topics, one_writer=len(placement.shares) == 1)
        with cancel_jobs_after(work.df.sparkSession, producer.timeout_ms - txn.age_ms, proof.tag):
            receipts = write_stage.write(placement, tickets, options.properties)
        reached(SinkStep.JOB_DONE, str(work.number))
        proof.prove(receipts)
        if receipts:
            reached(SinkStep.PROVEN, str(work.number))
            txn.accept(receipts)
            txn.withdraw(txn.outstanding)
            _commit(txn, work)
        else:
            # no task ran, so no receipt shows who holds a ticket; at a commit no participant may hold one
            txn.abort()
    if not receipts:
        _commit_progress(producer, work)
    return _sums(receipts)


def _commit_progress(producer: Producer, work: Work) -> None:
    """Commit a transaction of progress and offsets only: a batch without rows."""
    with producer.transaction() as txn:
        _commit(txn, work)


def _commit(txn: Transaction, work: Work) -> None:
    if work.group is not None and work.offsets:
        txn.send_offsets(work.offsets, work.group)
    txn.commit(work.progress)


def write_plain(client: Client, options: SinkOptions, work: Work) -> BatchResult:
    """Write the batch at least once: no transaction, no progress; what a failed or repeated task wrote stays
    visible.
    """
    began = time.monotonic()
    placement = _placed(client, options, work)
    receipts = write_stage.write(
        placement, non_transactional_tickets(placement.shares, placement.topics), options.properties
    )
    reached(SinkStep.JOB_DONE, str(work.number))
    return BatchResult(_sums(receipts), (time.monotonic() - began) * 1000)


def _placed(client: Client, options: SinkOptions, work: Work) -> Placement:
    df = check_columns(work.df, options.topic, options.topics)
    topics = describe_output_topics(client, options.outputs, client.deadline())
    codec = Codec.parse(client.config.compression_type)
    most = client.config.max_request_size
    placement = place(
        df,
        topics,
        topic=options.topic,
        any_partition=options.any_partition,
        codec=codec,
        max_record=most,
        batch=work.number,
        one_task=work.progress.run is not None and lineage.is_one_partition(work.df),
    )
    log.debug("batch %d: %s", work.number, placement.words)
    return placement


def _sums(receipts: list[Receipt]) -> dict[str, TopicTotals]:
    """Return the sums of the receipts by topic."""
    sums: dict[str, TopicTotals] = {}
    for receipt in receipts:
        for (topic, _), wrote in receipt.wrote.items():
            sums[topic] = sums.get(topic, TopicTotals()) + TopicTotals(wrote.records, wrote.size)
    return sums
