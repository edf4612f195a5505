"""The sink: each micro-batch of a query, or one batch job, in one Kafka transaction (DESIGN section 1, "batch scope").

::

    sink = KafkaSink(topic="out", transactionalIdPrefix="orders-out", **{"kafka.bootstrap.servers": "localhost:9092"})
    query = orders.writeStream.foreachBatch(sink).option("checkpointLocation", path).start()

A call takes over the prefix once a run, decides by checkpoint and progress whether the batch is to be run
(:mod:`semel.spark.sink.reconcile`), and has it written (:mod:`semel.spark.sink.batch_writer`). Not promised: anything
about side effects of the user's own functions, which Spark may run any number of times.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import NoReturn

from pyspark.sql import DataFrame

from semel.config import ClientConfig
from semel.errors import AbortAndRetry, ConfigError, Fenced, SemelError, Unsupported
from semel.spark.errors import QueryStopped, error, first_sentence
from semel.spark.jvm import streaming_query
from semel.spark.metrics.meter import BatchMetrics, BatchOutcome, meter
from semel.spark.sink import prefix_registry
from semel.spark.sink.batch_writer import BatchResult, Work, write_plain, write_with_retries
from semel.spark.sink.job_timeout import HOW_IT_FITS
from semel.spark.sink.micro_batch import MicroBatch, Query, observe
from semel.spark.sink.options import SinkOptions
from semel.spark.sink.output_ids import OutputCheck, check_job_outputs, output_ids
from semel.spark.sink.progress_mismatch import Mismatch
from semel.spark.sink.query_checks import check_query, check_settings, note_slow_sockets, warn_of_source_columns
from semel.spark.sink.rebuild import rebuild_state
from semel.spark.sink.reconcile import Rebuild, Run, Skip, reconcile
from semel.spark.sink.stage_retries import sink_made
from semel.steps import SinkStep, reached
from semel.transaction.group_offsets import group_view
from semel.transaction.producer import Producer
from semel.transaction.progress.record import Progress
from semel.wire.client import Client

__all__ = ["KafkaSink"]

log = logging.getLogger("semel.spark")


@dataclass(slots=True)
class _Run:
    """The sink's state for one run of a query: the prefix is taken over once, and each batch may come once.

    ``last`` is the newest one, ``failed`` the one whose call raised, ``writing`` the one whose transaction is open.
    """

    query: Query
    producer: Producer | None
    last: int | None = None
    failed: int | None = None
    writing: int | None = None


class KafkaSink:
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
        self._client = Client(ClientConfig.parse(self._options.properties))
        self._meter = meter(self._client.config, self._options.prefix, self._options.outputs)
        self._lock = threading.Lock()
        self._run: _Run | None = None
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
        """One micro-batch; what ``foreachBatch`` calls. Raises what stops the query (see ``docs/guarantees.md``)."""
        with self._meter.measure(batch_id) as measured:
            known = self._run.query if self._run else None
            batch = observe(df, known)
            query = batch.query
            measured.number, measured.query, measured.run = batch.number, query.id, query.run
            reached(SinkStep.CALLED, str(batch.number))
            try:
                self._micro_batch(df, batch, measured)
            except BaseException as raised:
                if not isinstance(raised, SemelError) and streaming_query.stopping(query.execution):
                    measured.outcome = BatchOutcome.STOPPED
                    # the transaction is aborted by now; what Spark must not see is its own error in ours (reference:
                    # the text of a stop)
                    raise QueryStopped from None
                found = error(raised) if isinstance(raised, Exception) else None
                self._note_failed(batch.number, found or raised)
                if found is not None and found is not raised:
                    raise found from raised
                raise
            reached(SinkStep.RETURNING, str(batch.number))

    def _note_failed(self, number: int, raised: BaseException) -> None:
        """Log it here: a function that swallows what the sink raises makes a query that runs and writes nothing."""
        again = isinstance(raised, SemelError) and raised.tag == "SECOND_CALL"
        if self._run is not None and self._run.last == number and not again:
            self._run.failed = number
        whose, why = self._options.prefix or self._options.topic, first_sentence(raised)
        writing = self._run is not None and self._run.writing == number
        if isinstance(raised, SemelError) or not isinstance(raised, Exception) or not writing:
            log.error("batch %d of %r ended with an error: %s", number, whose, why)
        else:  # Spark's, or of the user's code: before the commit, which alone makes rows visible
            log.error("batch %d of %r was aborted: %s. Nothing of it is visible.", number, whose, why)

    def _micro_batch(self, df: DataFrame, batch: MicroBatch, measured: BatchMetrics) -> None:
        run, query = self._enter(df, batch), batch.query
        work = self._work(df, batch, run.producer.progress if run.producer is not None else None)
        if run.producer is None:
            self._note(measured, write_plain(self._client, self._options, work))
            return
        decision = self._decide(batch, run.producer)
        reached(SinkStep.DECIDED, f"{batch.number} {type(decision).__name__}")
        if work.check is not None and not isinstance(decision, Run):  # a run compares what it looks at anyway
            work.check.check(output_ids(self._client.existing(self._options.outputs)))
        if isinstance(decision, Skip):
            log.info("batch %d of %r is committed already: skipped", batch.number, self._options.prefix)
            measured.outcome = BatchOutcome.SKIPPED
        elif isinstance(decision, Rebuild):
            rebuild_state(df, query, batch.number)
            measured.outcome = BatchOutcome.REBUILT
        else:
            if decision.overridden is not None:
                log.warning(
                    "batch %d is run because onProgressMismatch says so, in spite of: %s",
                    batch.number,
                    decision.overridden.reason,
                )
            run.writing = batch.number
            try:
                totals = self._write(run.producer, work)
            except Fenced as fenced:
                if query.stateful and query.settings.state_format == 1:
                    raise _with_its_state(fenced) from fenced
                raise
            run.writing = None
            self._note(measured, totals)
            if query.ends_by_itself:
                run.producer.wait_visible()

    def _write(self, producer: Producer, work: Work) -> BatchResult:
        """Write the batch.

        One that does not fit into the timeout ends in an error, over all runs of the query, not in endless aborts
        (DESIGN rule 10).
        """
        try:
            totals = write_with_retries(self._client, producer, self._options, work, self._meter)
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
        return totals

    def _enter(self, df: DataFrame, batch: MicroBatch) -> _Run:
        """Return the state of this run. A new run takes over. A second call for a batch is refused (DESIGN rule 2)."""
        with self._lock:
            run = self._run
            if run is None or run.query.run != batch.query.run:
                run = self._run = self._start(df, batch)
            if batch.number == run.last == run.failed:
                raise ConfigError(
                    f"the sink was called again for batch {batch.number} after its first call failed. Nothing of this"
                    " call was written; the first error says what became of the batch. Let that error leave your"
                    " function: the query then ends, and its next start runs the batch again.",
                    tag="SECOND_CALL",
                )
            if batch.number == run.last and run.producer is None:
                raise ConfigError(
                    f"the sink was called twice for batch {batch.number}. Nothing of the second call was written. With"
                    " delivery=at_least_once a restart writes the rows of the first call again. Write several outputs"
                    " as one DataFrame with a topic column, or with one sink each.",
                    tag="SECOND_CALL",
                )
            if batch.number == run.last:
                raise ConfigError(
                    f"the sink was called twice for batch {batch.number}. Nothing of the second call was written, and"
                    f" {prefix_registry.PARTIAL_BATCH_HINT} Write several outputs as one DataFrame with a topic"
                    " column, or with one sink and prefix each.",
                    tag="SECOND_CALL",
                )
            run.last = batch.number
            return run

    def _start(self, df: DataFrame, batch: MicroBatch) -> _Run:
        query = batch.query
        warn_of_source_columns(df, query)
        note_slow_sockets(query.settings)
        if not self._options.exactly_once:
            return _Run(query, None)
        check_query(query)
        check_settings(query.settings)
        cluster = self._cluster()
        prefix_registry.register(cluster, self._options.prefix, self, query)
        if circle := batch.reads(cluster) & set(self._options.outputs):
            log.warning(
                "the query reads the topic it writes (%s): it will process its own output for ever",
                ", ".join(sorted(circle)),
            )
        producer = self._producer("query")
        producer.take_over(self._options.outputs, self._group(query))
        return _Run(query, producer)

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

    def _producer(self, scope: str) -> Producer:
        producer = Producer(
            self._client,
            self._options.prefix,
            scope=scope,
            progress_topic=self._options.progress_topic,
            on_end=self._meter.ended,
        )
        self._meter.producer = producer
        return producer

    def _decide(self, batch: MicroBatch, producer: Producer) -> Run | Skip | Rebuild:
        progress = producer.progress
        logged = batch.positions(progress.batch) if progress is not None and progress.batch is not None else None
        decision = reconcile(
            batch.planned, progress, logged=logged, override=self._options.override, prefix=self._options.prefix
        )
        if isinstance(decision, Mismatch):
            raise decision.error()
        return decision

    def _work(self, df: DataFrame, batch: MicroBatch, before: Progress | None) -> Work:
        query = batch.query
        progress = Progress(query=query.id, run=query.run, batch=batch.number, sources=batch.planned.ends)
        group = self._group(query)
        offsets = group_view(progress, self._client) if group is not None else {}
        check = OutputCheck(before, self._options.prefix, self._options.progress_topic, self._options.override)
        return Work(df, batch.number, progress, again=not query.stateful, group=group, offsets=offsets, check=check)

    # ---- what others ask of it

    def check_owner(self) -> None:
        """Raise :class:`Fenced` where another driver has taken over the prefix since."""
        if self._run is not None and self._run.producer is not None:
            self._run.producer.check_owner()

    def abort_open(self) -> None:
        """Abort what the query's sink has open: when the program ends in the middle of a batch."""
        producer = self._run.producer if self._run is not None else None
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
                measured, write_plain(self._client, self._options, Work(df, version or 0, Progress(), again=False))
            )
        check_settings(streaming_query.settings(df))
        prefix_registry.check_free(self._cluster(), self._options.prefix, self, None)
        with self._producer("batch") as producer:
            before = producer.take_over(self._options.outputs)
            done = before.batch if before is not None else None
            if version is None:
                log.warning("no version was given: if this job is run again, its rows are written again")
            elif done is not None and version <= done:
                self._already_done(version, done)
                ids = output_ids(self._client.existing(self._options.outputs))
                check_job_outputs(before, ids, self._options.prefix, version)
                measured.outcome = BatchOutcome.SKIPPED
                return None
            # a write without a version leaves what the record says of the last version
            kept = before.outputs if version is None and before is not None else {}
            progress = Progress(batch=version if version is not None else done, outputs=kept)
            work = Work(df, version or 0, progress, again=True)
            return self._note(measured, self._write(producer, work))

    def _already_done(self, version: int, done: int) -> None:
        """Refuse an older version than the one that is committed; the same one is skipped, and that is logged."""
        if version < done:
            raise ConfigError(
                f"version {version} of {self._options.prefix!r} is older than {done}, which is committed. Nothing was"
                " written. Give a higher version for new data.",
                tag="VERSION_TOO_LOW",
            )
        log.info("version %d of %r is committed already: skipped", version, self._options.prefix)

    def _note(self, measured: BatchMetrics, totals: BatchResult) -> BatchResult:
        """Log what was written, and whose it is, and count it."""
        whose = self._options.prefix or self._options.topic or ", ".join(self._options.topics)
        log.info(
            "batch %d of %r: %d rows, %d bytes, %.0f ms",
            measured.number or 0,
            whose,
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
