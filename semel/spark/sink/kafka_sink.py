"""The sink: each micro-batch of a query, or one batch job, in one Kafka transaction (DESIGN section 1, "batch scope").

::

    sink = KafkaSink(topic="out", transactionalIdPrefix="orders-out", **{"kafka.bootstrap.servers": "localhost:9092"})
    query = orders.writeStream.foreachBatch(sink).option("checkpointLocation", path).start()

The life cycle of a call is in :mod:`semel.spark.sink.foreach_batch`, the way of its rows in
:mod:`semel.spark.sink.batch_writer`. The prefix is taken over once a run. Not promised: anything about side effects of
the user's own functions, which Spark may run any number of times.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import NoReturn

from pyspark.sql import DataFrame

from semel.config import ClientConfig
from semel.errors import AbortAndRetry, ConfigError, Fenced, SemelError, Unsupported
from semel.spark.job.proof import Proof, sink_made
from semel.spark.job.run import HOW_IT_FITS
from semel.spark.jvm import streaming_query
from semel.spark.metrics.meter import BatchMetrics, BatchOutcome, meter
from semel.spark.sink import foreach_batch
from semel.spark.sink.batch_writer import NOT_AGAIN, BatchJob, BatchResult, write_once, write_plain
from semel.spark.sink.foreach_batch import ForeachBatch, RunState, retried
from semel.spark.sink.job_version import is_due
from semel.spark.sink.micro_batch import MicroBatch, Query
from semel.spark.sink.options import SinkOptions
from semel.spark.sink.progress_mismatch import OutputCheck, check_job_outputs, output_ids
from semel.spark.sink.reconcile import Rebuild, Run, Skip
from semel.transaction.group_offsets import group_view
from semel.transaction.output_topics import OutputTopics
from semel.transaction.producer import Producer
from semel.transaction.progress.record import Progress
from semel.wire.client import Client

__all__ = ["KafkaSink"]

log = logging.getLogger("semel.spark")


class KafkaSink(ForeachBatch[Producer | None]):
    """Writes DataFrames to Kafka, exactly once.

    Options are those of Spark's Kafka sink, and: ``transactionalIdPrefix`` (the query's name for ever; required),
    ``topics`` (the topics that a ``topic`` column may name, separated by commas), ``partitioner`` (``default``, or
    ``any`` to spread rows in spite of their keys), ``delivery`` (``exactly_once`` or ``at_least_once``),
    ``maxBatchRetries`` (3), ``progressTopic``, ``onProgressMismatch``, and ``kafka.group.id`` (the group to which the
    source's offsets are committed with the rows). An option of None counts as not given, as in PySpark. Raises
    :class:`ConfigError` for wrong options. Connects at the first batch.
    """

    def __init__(self, *unnamed: object, **options: object) -> None:
        if unnamed:
            raise ConfigError(
                "KafkaSink takes its options by name, and was given values without. Nothing was written. Make it first:"
                " sink = KafkaSink(topic=..., transactionalIdPrefix=..., ...), then foreachBatch(sink).",
                tag="UNNAMED_OPTIONS",
            )
        self._options = SinkOptions.parse(options)
        whose = self._options.prefix or self._options.topic or ", ".join(self._options.topics)
        super().__init__(whose, self._options.override, exactly_once=self._options.exactly_once)
        self._client = Client(ClientConfig.parse(self._options.properties))
        self._outputs = OutputTopics(self._client)
        self._meter = meter(self._client.config, self._options.prefix, self._options.outputs)
        self._expired = 0
        if self._options.exactly_once:
            sink_made(self._options.prefix)
        else:
            log.warning(
                "delivery=at_least_once: whatever is interrupted writes its rows again, and readers see them twice"
            )

    def __repr__(self) -> str:
        return f"KafkaSink(topic={self._options.topic!r}, transactionalIdPrefix={self._options.prefix!r})"

    def __reduce__(self) -> NoReturn:
        # Spark Connect pickles the function of foreachBatch, to run it on its server
        raise Unsupported(
            "a KafkaSink stays in the driver, and was to be sent to another process: by Spark Connect, or inside of a"
            " function that tasks run. Nothing was written. Give it to foreachBatch of a classic Spark session.",
            tag="SPARK_CONNECT",
        )

    # ---- streaming

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write one micro-batch. Raises what stops the query (see ``docs/guarantees.md``)."""
        self._outputs.look_ahead()  # beside what Spark is asked
        super().__call__(df, batch_id)

    def _measure(self, number: int) -> AbstractContextManager[BatchMetrics]:
        return self._meter.measure(number)

    def _start(self, batch: MicroBatch) -> Producer | None:
        if not self._options.exactly_once:
            return None
        query = batch.query
        cluster = self._cluster()
        foreach_batch.register(cluster, self._options.prefix, self, query)
        if circle := batch.reads(cluster) & set(self._options.outputs):
            log.warning(
                "the query reads the topic it writes (%s): it will process its own output for ever",
                ", ".join(sorted(circle)),
            )
        producer = self._new_producer("query")
        producer.take_over(self._options.outputs, self._group(query))
        return producer

    def _write_batch(
        self, df: DataFrame, batch: MicroBatch, run: RunState[Producer | None], measured: BatchMetrics
    ) -> Run | Skip | Rebuild:
        producer = run.owner
        work = self._work(df, batch, producer.progress if producer is not None else None)
        if producer is None:
            self._note(measured, write_plain(self._outputs, self._options, work))
            return Run()
        decision = self._decide(batch, producer.progress)
        if isinstance(decision, Run):
            run.writing = work.number
            written = self._write_in_transaction(producer, work, batch.query)
            run.writing = None
            self._note(measured, written)
            if batch.query.ends_by_itself:
                producer.wait_visible()
        elif work.check is not None:  # a run compares what it looks at anyway
            work.check.check(output_ids(self._client.existing(self._options.outputs)))
        return decision

    def _write_in_transaction(self, producer: Producer, work: BatchJob, query: Query) -> BatchResult:
        try:
            return self._write(producer, work)
        except Fenced as fenced:
            if query.stateful and query.settings.state_format == 1:
                raise _with_its_state(fenced) from fenced
            raise

    def _write(self, producer: Producer, work: BatchJob) -> BatchResult:
        """Write the batch exactly once. Run it again up to ``maxBatchRetries`` times, if that can help.

        It cannot for a batch with state, because the state of an aborted run would stay (DESIGN rule 2), nor for what
        :data:`NOT_AGAIN` names. A batch that does not fit into the timeout ends in an error, over all runs of the
        query, not in endless aborts (DESIGN rule 10).
        """
        proof = Proof(work.df, self._options.prefix, run=work.progress.run)

        def again(failed: SemelError) -> bool:
            if not work.again or failed.tag in NOT_AGAIN:
                return False
            proof.next_attempt()
            self._meter.again()
            return True

        write = partial(write_once, self._outputs, producer, self._options, work, proof)
        title = f"batch {work.number} of {self._options.prefix!r}"
        try:
            written, retries = retried(write, self._options.retries, title, again)
        except AbortAndRetry as aborted:
            self._expired += aborted.tag == "EXPIRED"
            if aborted.tag == "EXPIRED" and (work.again or self._expired > self._options.retries):
                raise ConfigError(
                    f"batch {work.number} does not fit into transaction.timeout.ms={producer.timeout_ms}. Nothing of it"
                    f" is visible. {HOW_IT_FITS}",
                    tag="BATCH_TOO_LONG",
                ) from None
            raise
        self._expired = 0
        return replace(written, retries=retries)

    def _second_call(self) -> str:
        if not self._options.exactly_once:
            return (
                ". With delivery=at_least_once a restart writes the rows of the first call again. Write several outputs"
                " as one DataFrame with a topic column, or with one sink each."
            )
        return (
            f", and {foreach_batch.PARTIAL_BATCH_HINT} Write several outputs as one DataFrame with a topic column, or"
            " with one sink and prefix each."
        )

    def _group(self, query: Query) -> str | None:
        """Return the group that shows the progress: the sink's option, or that of the sources. Users set it once."""
        groups = sorted({source.group for source in query.sources if source.group is not None})
        if self._options.group is None and len(groups) > 1:
            raise ConfigError(
                f"the sources have different groups ({', '.join(groups)}), and the sink commits to one. Nothing was"
                " written. Give the sink kafka.group.id, or the sources the same.",
                tag="SEVERAL_GROUPS",
            )
        return self._options.group or next(iter(groups), None)

    def _cluster(self) -> str:
        self._client.versions()  # the sink's first request: if no broker answers, the error says that
        return self._client.cluster

    def _new_producer(self, scope: str) -> Producer:
        producer = Producer(
            self._client,
            self._options.prefix,
            scope=scope,
            progress_topic=self._options.progress_topic,
            on_end=self._meter.ended,
        )
        self._meter.producer = producer
        return producer

    def _work(self, df: DataFrame, batch: MicroBatch, before: Progress | None) -> BatchJob:
        query = batch.query
        progress = Progress(query=query.id, run=query.run, batch=batch.number, sources=batch.planned.ends)
        group = self._group(query)
        offsets = group_view(progress, self._client) if group is not None else {}
        check = OutputCheck(before, self._options.prefix, self._options.progress_topic, self._options.override)
        return BatchJob(
            df,
            batch.number,
            progress,
            again=not query.stateful,
            group=group,
            offsets=offsets,
            check=check,
            rows=batch.rows,
        )

    # ---- what others ask of it

    def check_owner(self) -> None:
        """Raise :class:`Fenced` where another driver has taken over the prefix since."""
        if self._run is not None and self._run.owner is not None:
            self._run.owner.check_owner()

    def abort_open(self) -> None:
        """Abort what the query's sink has open: when the program ends in the middle of a batch."""
        producer = self._run.owner if self._run is not None else None
        if producer is not None and producer.age_ms is not None:
            producer.close()

    # ---- batch jobs

    def write(self, df: DataFrame, version: int | None = None) -> BatchResult | None:
        """Write a batch DataFrame: all of it becomes visible at once, or nothing.

        With a ``version``, the same version again is skipped (returns None) and a lower one refused. So a job may be
        started again after a failure. Without a version, a second run writes the rows again, which is printed.

        Raises :class:`ConfigError` for columns, rows, settings or a version that cannot be written, and inside a
        foreachBatch function. Raises :class:`AbortAndRetry` if ``maxBatchRetries`` did not help,
        :class:`~semel.errors.Fenced` if another owner has the prefix, and :class:`~semel.errors.Retriable` if brokers
        stay away or (tagged OUTCOME_UNKNOWN) the outcome is unknown. Raises :class:`~semel.errors.DataLoss` for damaged
        progress or a lost marker, :class:`Unsupported` for Spark Connect or an old broker, and what Spark raises.
        """
        if streaming_query.is_connect(df):
            raise Unsupported(
                "Spark Connect is not supported by the sink yet. Nothing was written. Use a classic Spark session.",
                tag="SPARK_CONNECT",
            )
        if streaming_query.callback(df) is not None or streaming_query.belongs_to_query(df):
            raise ConfigError(
                "write() was called in the function of a streaming query, and it does not know the query's offsets:"
                " after a restart it would skip or repeat rows. Nothing was written. Call the sink itself there:"
                " sink(df, batch_id).",
                tag="WRITE_IN_QUERY",
            )
        if version is not None and (not isinstance(version, int) or isinstance(version, bool)):
            raise ConfigError(
                f"version={version!r} is no whole number. Nothing was written. Give an int, such as 20261121.",
                tag="VERSION",
            )
        if df.isStreaming:
            raise ConfigError(
                "write() takes a batch DataFrame, and this one is streaming. Nothing was written. Give the sink to"
                " foreachBatch."
            )
        with self._meter.measure(version) as measured:
            return self._job(df, version, measured)

    def _job(self, df: DataFrame, version: int | None, measured: BatchMetrics) -> BatchResult | None:
        if not self._options.exactly_once:
            return self._note(
                measured, write_plain(self._outputs, self._options, BatchJob(df, version or 0, Progress(), again=False))
            )
        foreach_batch.check_settings(df.sparkSession, streaming_query.settings(df))
        foreach_batch.check_free(self._cluster(), self._options.prefix, self, None)
        with self._new_producer("batch") as producer:
            before = producer.take_over(self._options.outputs)
            done = before.batch if before is not None else None
            if not is_due(version, done, self._options.prefix) and version is not None:
                ids = output_ids(self._client.existing(self._options.outputs))
                check_job_outputs(before, ids, self._options.prefix, version)
                measured.outcome = BatchOutcome.SKIPPED
                return None
            # a write without a version leaves what the record says of the last version
            kept = before.outputs if version is None and before is not None else {}
            progress = Progress(batch=version if version is not None else done, outputs=kept)
            work = BatchJob(df, version or 0, progress, again=True)
            return self._note(measured, self._write(producer, work))

    def _note(self, measured: BatchMetrics, totals: BatchResult) -> BatchResult:
        """Log what was written, and whose it is, and count it."""
        log.info(
            "batch %d of %r: %d rows, %d bytes, %.0f ms",
            measured.number or 0,
            self._name,
            totals.rows,
            totals.size,
            totals.milliseconds,
        )
        measured.outcome, measured.wrote = BatchOutcome.WRITTEN, totals.wrote
        return totals


def _with_its_state(fenced: Fenced) -> Fenced:
    """Add what a driver that was fenced in mid-batch may have done to the checkpoint (docs/guarantees.md, "State"): no
    broker keeps it from that.
    """
    return Fenced(
        f"{fenced.message} This driver may also have overwritten state of the other one in the checkpoint (format 1)."
        " If your code is not deterministic, or the two differ, start over: `semel progress reset`, a new checkpoint,"
        " new output topics. RocksDB with spark.sql.streaming.stateStore.checkpointFormatVersion=2 prevents it.",
        tag=fenced.tag,
    )
