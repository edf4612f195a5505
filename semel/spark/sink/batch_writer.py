"""One DataFrame in one transaction: its columns, the task for each output partition, the job, the proof, the commit.

The path of every row that leaves Spark (PROTOCOL 3; DESIGN section 7). Rows with a key or a partition are encoded where
they are (:mod:`semel.spark.sink.encode_stage`), and their record batches are shuffled once, by ``repartitionById``, to
the one task that holds the ticket of their partition: it gives exactly the tasks that were asked for, whatever adaptive
execution does (``rebalance`` and ``repartition(column)`` do not). Rows that may go anywhere are not shuffled: each task
writes to partitions of its own, which change from batch to batch. These are rows without a key, and, where each core
has a partition to write, rows whose key the plan itself makes null. Nor are those that one task has computed: it holds
one ticket, for all partitions.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from pyspark.sql import DataFrame

from semel.errors import AbortAndRetry, ConfigError
from semel.records.codecs import Codec
from semel.spark.job.proof import FORGOTTEN, STALE, Proof
from semel.spark.job.run import cancel_jobs_after
from semel.spark.jvm import lineage, plan_size, versions
from semel.spark.jvm.python_stage import map_in_arrow
from semel.spark.metrics.meter import TopicTotals
from semel.spark.sink import write_stage
from semel.spark.sink.columns import written_columns
from semel.spark.sink.encode_stage import COLUMNS, Encoder
from semel.spark.sink.options import SinkOptions
from semel.spark.sink.progress_mismatch import OutputCheck, output_ids
from semel.spark.sink.write_stage import WriteSettings
from semel.spark.version_guard import SealedStage, pack
from semel.steps import SinkStep, reached
from semel.transaction.output_topics import OutputTopics, non_transactional_tickets
from semel.transaction.producer import Producer
from semel.transaction.progress.record import Progress
from semel.transaction.ticket import Receipt, TicketTopic
from semel.transaction.transaction import Transaction
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition
from semel.wire.metadata_cache import JUST_NOW_MS

__all__ = ["NOT_AGAIN", "BatchJob", "BatchResult", "write_once", "write_plain"]

log = logging.getLogger("semel.spark")

#: Tags after which no retry in the same call helps: the outcome of the transaction is unknown, or a retry would read
#: the same torn rows.
NOT_AGAIN = ("OUTCOME_UNKNOWN", STALE, FORGOTTEN)


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
class BatchJob:
    """One batch: its rows, and what its transaction says besides them.

    ``offsets`` are committed to ``group``, if there is one; ``again`` is whether the batch may be run again in this
    call. ``check`` compares the output topics with the batch before. ``rows`` is the greatest number of rows that it
    may have, if that is known and no function of the user's makes them.
    """

    df: DataFrame
    number: int
    progress: Progress
    again: bool
    group: str | None = None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    check: OutputCheck | None = None
    rows: int | None = None


def write_once(
    outputs: OutputTopics, producer: Producer, options: SinkOptions, work: BatchJob, proof: Proof
) -> BatchResult:
    """Write the batch in one transaction and commit it, or raise with nothing of it visible.

    Raises :class:`AbortAndRetry` too for an error that comes of what was known of the output topics: it has changed.
    """
    known = outputs.age_s < math.inf
    try:
        return _write_once(outputs, producer, options, work, proof)
    except BaseException as error:
        before = outputs.forget()
        if known and isinstance(error, ConfigError):
            now = outputs.describe(options.outputs, outputs.client.deadline())
            if any(before.get(name) != now[name] for name in options.outputs):
                raise AbortAndRetry(error.message, tag=error.tag) from error
        raise


def _write_once(
    outputs: OutputTopics, producer: Producer, options: SinkOptions, work: BatchJob, proof: Proof
) -> BatchResult:
    began = time.monotonic()
    placement = _placed(outputs, options, work)
    ids = output_ids(placement.topics)
    if work.check is not None:
        work.check.check(ids)
    work = replace(work, progress=replace(work.progress, outputs=work.progress.outputs or ids))
    with producer.transaction() as txn:
        tickets = txn.tickets(placement.shares, placement.topics, one_writer=len(placement.shares) == 1)
        with cancel_jobs_after(work.df.sparkSession, producer.timeout_ms - txn.age_ms, proof.tag):
            receipts = write_stage.write(
                placement.df, placement.columns, placement.writing, tickets, options.properties
            )
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
    return BatchResult(_sums(receipts), (time.monotonic() - began) * 1000)


def _commit_progress(producer: Producer, work: BatchJob) -> None:
    """Commit a transaction of progress and offsets only: a batch without rows."""
    with producer.transaction() as txn:
        _commit(txn, work)


def _commit(txn: Transaction, work: BatchJob) -> None:
    if work.group is not None and work.offsets:
        txn.send_offsets(work.offsets, work.group)
    txn.commit(work.progress)


def write_plain(outputs: OutputTopics, options: SinkOptions, work: BatchJob) -> BatchResult:
    """Write the batch at least once: no transaction, no progress; what a failed or repeated task wrote stays
    visible.
    """
    began = time.monotonic()
    try:
        placement = _placed(outputs, options, work)
        tickets = non_transactional_tickets(placement.shares, placement.topics)
        receipts = write_stage.write(placement.df, placement.columns, placement.writing, tickets, options.properties)
    except BaseException:
        outputs.forget()
        raise
    reached(SinkStep.JOB_DONE, str(work.number))
    return BatchResult(_sums(receipts), (time.monotonic() - began) * 1000)


def _sums(receipts: list[Receipt]) -> dict[str, TopicTotals]:
    """Return the sums of the receipts by topic."""
    sums: dict[str, TopicTotals] = {}
    for receipt in receipts:
        for (topic, _), wrote in receipt.wrote.items():
            sums[topic] = sums.get(topic, TopicTotals()) + TopicTotals(wrote.records, wrote.size)
    return sums


# ---- which task writes which output partition


@dataclass(frozen=True, slots=True)
class _Placement:
    """A DataFrame whose Spark partition ``i`` holds only what goes to the partitions in ``shares[i]``, of ``topics`` as
    they were looked at.
    """

    df: DataFrame
    columns: Sequence[str]
    shares: list[list[TopicPartition]]
    topics: Mapping[str, TicketTopic]
    writing: WriteSettings


def _placed(outputs: OutputTopics, options: SinkOptions, work: BatchJob) -> _Placement:
    (df, columns), client = _only_written(work.df, options), outputs.client
    # a batch job has taken its prefix over just now, and looked at the topics for that
    topics = outputs.describe(options.outputs, client.deadline(), max_age_ms=JUST_NOW_MS)
    one_task = _in_one_task(df, work, options.few_records)
    placement = _place(
        one_task if one_task is not None else df,
        columns,
        client,
        topics,
        options,
        turn=work.number,
        one_task=one_task is not None,
    )
    log.debug(
        "batch %d: %s at most %d tasks",
        work.number,
        "shuffled to" if placement.writing.encoded else "not shuffled,",
        len(placement.shares),
    )
    return placement


def _in_one_task(df: DataFrame, work: BatchJob, most: int) -> DataFrame | None:
    """Return the rows in one partition, if they have one already or are at most so many: a task of Python costs what
    many rows cost, and what one task writes is not shuffled. None where several tasks are better.
    """
    if work.progress.run is None:
        few = plan_size.rows_of_batch_job(df, most) is not None
        return df.coalesce(1) if few else None
    partitions = plan_size.partitions_of_batch(df)
    if partitions == 1:
        return df
    few = partitions is not None and work.rows is not None and work.rows <= most
    return df.coalesce(1) if few and plan_size.chooses_columns(df) else None


def _only_written(df: DataFrame, options: SinkOptions) -> tuple[DataFrame, list[str]]:
    """Return the rows with the columns that are written, and their names: each ``df.columns`` is two calls of Java."""
    written = written_columns(df.schema, options.topic, options.topics)
    # each plan that Spark makes costs a batch some milliseconds
    return (df if sorted(written) == sorted(df.schema.names) else df.select(*written)), written


def _place(
    df: DataFrame,
    columns: Sequence[str],
    client: Client,
    topics: Mapping[str, TicketTopic],
    options: SinkOptions,
    *,
    turn: int,
    one_task: bool,
) -> _Placement:
    """Place the rows of ``df`` on tasks.

    ``topics`` are all that may be written; ``turn`` turns the tickets of free rows. ``one_task`` says that ``df`` has
    one partition.
    """
    topic, any_partition, names = options.topic, options.any_partition, sorted(topics)
    free = WriteSettings(topic, tuple(topics), turn=turn)
    every = [(name, index) for name in names for index in range(topics[name].partitions)]
    if one_task:
        return _Placement(df, columns, [every], topics, replace(free, keys=not any_partition))
    cores = df.sparkSession.sparkContext.defaultParallelism
    tasks = max(1, min(len(every), cores))
    shares = [every[task::tasks] for task in range(tasks)]
    if topic is not None and "partition" not in columns:
        # with fewer tasks than cores, what is computed before would lose some of them
        if tasks == cores and not any_partition and "key" in columns and lineage.is_null_column(df, "key"):
            df, columns = df.drop("key"), [name for name in columns if name != "key"]
        if any_partition or "key" not in columns:
            turned = shares[turn % tasks :] + shares[: turn % tasks]
            return _Placement(df.coalesce(tasks), columns, turned, topics, replace(free, turn=0))
    first = dict(zip(names, accumulate((topics[name].partitions for name in names), initial=0), strict=False))
    codec, most = Codec.parse(client.config.compression_type), client.config.max_request_size
    encoder = Encoder(topic, topics, first, tasks, not any_partition, codec, most)
    encoded = map_in_arrow(df, SealedStage(*pack(encoder)), COLUMNS, columns)
    shuffled = versions.current().repartition_by_slot(encoded, tasks, "slot")
    return _Placement(shuffled, COLUMNS.names, shares, topics, WriteSettings(None, tuple(topics), encoded=True))
