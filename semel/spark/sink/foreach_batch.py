"""The life cycle of a ``foreachBatch`` call: its query and batch, the checks before a run, the decision, the end.

A :class:`ForeachBatch` is called by Spark. What it writes, and where its progress is, says the class that is made of
it: :class:`semel.spark.sink.kafka_sink.KafkaSink`, :class:`semel.spark.database.DatabaseSink`. Checkpoint and progress
decide whether a batch is run (:mod:`semel.spark.sink.reconcile`).

Two writers with one prefix would fence each other, or skip what only the other has written (DESIGN rule 2), so the
prefixes of live queries are registered, by the cluster's own id: ``localhost:9092`` and ``127.0.0.1:9092`` are one.
Not promised: anything about other applications, which the brokers keep apart.
"""

from __future__ import annotations

import atexit
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from itertools import count
from typing import Generic, Protocol, TypeVar

from pyspark.sql import DataFrame, SparkSession

from semel.errors import AbortAndRetry, ConfigError, Retriable, SemelError, Unsupported
from semel.spark.errors import QueryStopped, error, first_sentence
from semel.spark.jvm import streaming_query
from semel.spark.jvm.lineage import columns_of_source
from semel.spark.jvm.values import Settings, Trigger
from semel.spark.metrics.meter import BatchMetrics, BatchOutcome
from semel.spark.sink.micro_batch import MicroBatch, Query, observe
from semel.spark.sink.progress_mismatch import Mismatch
from semel.spark.sink.reconcile import Rebuild, Run, Skip, reconcile
from semel.spark_session import check_no_speculation
from semel.steps import SinkStep, reached
from semel.transaction.progress.record import Progress

__all__ = [
    "PARTIAL_BATCH_HINT",
    "ForeachBatch",
    "RunState",
    "Writer",
    "abort_open",
    "check_free",
    "check_owners",
    "check_settings",
    "note_slow_sockets",
    "register",
    "retried",
]

log = logging.getLogger("semel.spark")

Result = TypeVar("Result")
Owner = TypeVar("Owner")

#: A refusal does not take back what is committed.
PARTIAL_BATCH_HINT = (
    "once the first call has returned, it is committed, and a restart skips this batch. Rows that only the second call"
    " would write are missing: give them a sink with a transactionalIdPrefix of its own, or start over (`semel progress"
    " reset`, a new checkpoint, new output topics)."
)
_LEAST_KEPT = 100
#: What a column of the source does to the output where it is written on.
_EFFECTS = {
    "partition": "each row goes to the partition number it was read from, whatever its key",
    "timestamp": "each row keeps its time, by which the output's retention counts",
}


@dataclass(slots=True)
class RunState(Generic[Owner]):
    """A run of a query, of which each batch may come once.

    ``owner`` is what the sink writes with: a call that has begun keeps it, whatever run comes next.

    ``last`` is the newest batch, ``failed`` the one whose call raised, ``writing`` the one whose transaction is open.
    """

    query: Query
    owner: Owner
    last: int | None = None
    failed: int | None = None
    writing: int | None = None


class ForeachBatch(ABC, Generic[Owner]):
    """What ``foreachBatch`` calls. ``name`` is its prefix, ``override`` the token for a batch that was refused."""

    def __init__(self, name: str, override: str | None, *, exactly_once: bool = True) -> None:
        self._name, self._override, self._exactly_once = name, override, exactly_once
        self._lock = threading.Lock()
        self._run: RunState[Owner] | None = None
        self._observed: MicroBatch | None = None

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write one micro-batch. Raises what stops the query (see ``docs/guarantees.md``)."""
        with self._measure(batch_id) as measured:
            batch = self._observed = observe(df, self._observed)
            measured.number, measured.query, measured.run = batch.number, batch.query.id, batch.query.run
            reached(SinkStep.CALLED, str(batch.number))
            try:
                run = self._enter(df, batch)
                self._finish(self._write_batch(df, batch, run, measured), df, batch, measured)
            except BaseException as raised:
                if not isinstance(raised, SemelError) and streaming_query.stopping(batch.query.execution):
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

    # ---- what a sink says

    @abstractmethod
    def _start(self, batch: MicroBatch) -> Owner:
        """Begin a run of a query: take over what the run before has left. Return what it is written with."""

    @abstractmethod
    def _write_batch(
        self, df: DataFrame, batch: MicroBatch, run: RunState[Owner], measured: BatchMetrics
    ) -> Run | Skip | Rebuild:
        """Decide by :meth:`_decide`, and write the batch if it is to be run."""

    @abstractmethod
    def _second_call(self) -> str:
        """Return what follows from a second call, and what to do: the end of a message."""

    def _measure(self, number: int) -> AbstractContextManager[BatchMetrics]:
        return nullcontext(BatchMetrics(self._name, number))

    def _refused(self, mismatch: Mismatch) -> SemelError:
        return mismatch.error()

    # ---- one call

    def _enter(self, df: DataFrame, batch: MicroBatch) -> RunState[Owner]:
        """Return the run, which its first batch begins. A second call for a batch is refused (DESIGN rule 2)."""
        with self._lock:
            if self._run is None or self._run.query.run != batch.query.run:
                _check_run(df, batch.query, exactly_once=self._exactly_once)
                self._run = RunState(batch.query, self._start(batch))
            run = self._run
            if batch.number == run.last == run.failed:
                raise ConfigError(
                    f"the sink was called again for batch {batch.number} after its first call failed. Nothing of this"
                    " call was written; the first error says what became of the batch. Let that error leave your"
                    " function: the query then ends, and its next start runs the batch again.",
                    tag="SECOND_CALL",
                )
            if batch.number == run.last:
                raise ConfigError(
                    f"the sink was called twice for batch {batch.number}. Nothing of the second call was"
                    f" written{self._second_call()}",
                    tag="SECOND_CALL",
                )
            run.last = batch.number
            return run

    def _decide(self, batch: MicroBatch, progress: Progress | None) -> Run | Skip | Rebuild:
        """Compare the batch with the newest committed progress. Raises what :meth:`_refused` makes of a mismatch."""
        logged = batch.positions(progress.batch) if progress is not None and progress.batch is not None else None
        decision = reconcile(batch.planned, progress, logged=logged, override=self._override, prefix=self._name)
        if isinstance(decision, Mismatch):
            raise self._refused(decision)
        reached(SinkStep.DECIDED, f"{batch.number} {type(decision).__name__}")
        if isinstance(decision, Run) and decision.overridden is not None:
            log.warning(
                "batch %d is run because onProgressMismatch says so, in spite of: %s",
                batch.number,
                decision.overridden.reason,
            )
        return decision

    def _finish(self, decision: Run | Skip | Rebuild, df: DataFrame, batch: MicroBatch, measured: BatchMetrics) -> None:
        if isinstance(decision, Skip):
            log.info("batch %d of %r is committed already: skipped", batch.number, self._name)
            measured.outcome = BatchOutcome.SKIPPED
        elif isinstance(decision, Rebuild):
            _rebuild_state(df, batch.query, batch.number)
            measured.outcome = BatchOutcome.REBUILT

    def _note_failed(self, number: int, raised: BaseException) -> None:
        """Log it here: a function that swallows what the sink raises makes a query that runs and writes nothing."""
        again = isinstance(raised, SemelError) and raised.tag == "SECOND_CALL"
        run, why = self._run, first_sentence(raised)
        if run is not None and run.last == number and not again:
            run.failed = number
        writing = run is not None and run.writing == number
        if isinstance(raised, SemelError) or not isinstance(raised, Exception) or not writing:
            log.error("batch %d of %r ended with an error: %s", number, self._name, why)
        else:  # Spark's, or of the user's code: before the commit, which alone makes rows visible
            log.error("batch %d of %r was aborted: %s. Nothing of it is visible.", number, self._name, why)


def retried(
    write: Callable[[], Result], most: int, title: str, again: Callable[[SemelError], bool]
) -> tuple[Result, int]:
    """Write a batch, up to ``most`` times again in the same call. Return the result, and how often it was run again.

    ``again`` says of an :class:`AbortAndRetry` or :class:`Retriable` whether another try can help.
    """
    for retries in count():
        try:
            return write(), retries
        except (AbortAndRetry, Retriable) as failed:
            if retries >= most or not again(failed):
                raise
            log.warning("%s is run again (%d of %d): %s", title, retries + 1, most, failed)
    raise AssertionError("it counts for ever")


def _rebuild_state(df: DataFrame, query: Query, batch: int) -> None:
    """Bring a stateful query behind a batch that is committed, and write nothing (PROTOCOL 6).

    The state of a committed batch is durable: a plan whose watermark does not have to be moved on is best not executed,
    where Spark accepts that.
    """
    may_stay_idle = not query.settings.commit_validation and query.settings.state_format == 1
    if may_stay_idle and not query.plan.watermark:
        log.info("batch %d is committed already, and so is its state: not executed", batch)
        return
    log.info("batch %d is committed already: its state is rebuilt, nothing is written", batch)
    if not query.plan.deterministic:
        log.warning(
            "batch %d is executed again to rebuild its state, and its plan is not deterministic: the state may differ"
            " from the output that was committed. Without a watermark,"
            " spark.sql.streaming.stateStore.commitValidation.enabled=false keeps it, with state store format 1.",
            batch,
        )
    df.write.format("noop").mode("overwrite").save()


# ---- before the first batch


def _check_run(df: DataFrame, query: Query, *, exactly_once: bool) -> None:
    """Refuse a query whose batches cannot be recognised after a restart, and log what is seldom meant."""
    _warn_of_source_columns(df, query)
    note_slow_sockets(query.settings)
    _check_all_is_read(query)
    if exactly_once:
        _check_query(query)
        check_settings(df.sparkSession, query.settings)


def _check_all_is_read(query: Query) -> None:
    """Refuse a limit for the one batch that Spark before 4.2 makes of a run that ends by itself."""
    most = next((source.most for source in query.sources if source.most is not None), None)
    if most is not None and query.ends_by_itself and not query.execution.limits_each_batch:
        raise Unsupported(
            f"this Spark makes one batch of a query with {query.trigger.value}: maxOffsetsPerTrigger={most} would leave"
            " the other rows unread. Nothing was written. (1) Remove it. (2) Use processingTime, processAllAvailable()"
            " and stop(). (3) Use PySpark 4.2 or newer.",
            tag="ONE_BATCH",
        )


def _check_query(query: Query) -> None:
    if query.temporary:
        raise ConfigError(
            "the query has a temporary checkpoint, which Spark deletes: exactly-once across a restart is impossible"
            " with it. Nothing was written. Set checkpointLocation.",
            tag="TEMPORARY_CHECKPOINT",
        )
    if query.trigger not in (Trigger.PROCESSING_TIME, Trigger.AVAILABLE_NOW, Trigger.ONCE):
        raise Unsupported(
            f"trigger {query.trigger.value} has no micro-batches that a transaction could hold. Nothing was written."
            " Use processingTime, availableNow or once.",
            tag="TRIGGER",
        )
    if query.stateful and query.settings.pipelined:
        raise ConfigError(
            "spark.python.udf.pipelined.enabled is on, and the query keeps state: in its threads Spark 4.3 hands one"
            " query's state store to another. Nothing was written. Set it to false, which is Spark's default.",
            tag="PIPELINED",
        )


def check_settings(spark: SparkSession, settings: Settings) -> None:
    """Refuse settings under which tasks write twice, or Spark forgets what it has run."""
    check_no_speculation(spark.sparkContext, "Nothing was written.")
    for what, kept in (("Stages", settings.retained_stages), ("Jobs", settings.retained_jobs)):
        if kept < _LEAST_KEPT:
            raise ConfigError(
                f"spark.ui.retained{what}={kept} is below {_LEAST_KEPT}: Spark could forget what it has run before it"
                " has confirmed it. Nothing was written. Raise it.",
                tag="RETAINED_STAGES" if what == "Stages" else "RETAINED_JOBS",
            )


def note_slow_sockets(settings: Settings) -> None:
    """Log that tasks wait for their Python, which one setting of Spark spares them (docs/decisions/0019)."""
    if settings.domain_sockets is False:
        log.info(
            "spark.python.unix.domain.socket.enabled is off: each Python task waits 40 ms for its first bytes. Set it"
            " to true where Spark is started."
        )


def _warn_of_source_columns(df: DataFrame, query: Query) -> None:
    """Warn where the source's own ``partition`` or ``timestamp`` is written on: seldom is that what was meant."""
    found: list[str] = []
    with suppress(Unsupported):  # a warning is not worth a query
        found = sorted(columns_of_source(df, query.execution, _EFFECTS))
    if found:
        effects = "; ".join(f"{name}: {_EFFECTS[name]}" for name in found)
        names = ", ".join(repr(name) for name in found)
        log.warning("the query writes columns of its source on. %s. Otherwise: drop(%s).", effects, names)


# ---- the prefixes of this application


class Writer(Protocol):
    """A sink, as far as its prefix goes."""

    def check_owner(self) -> None:
        """Raise :class:`~semel.errors.Fenced` where another driver has the prefix now."""

    def abort_open(self) -> None:
        """Abort what is open."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """A sink that writes with a prefix, and the run of a query that it writes for."""

    sink: Writer
    query: Query


_claims: dict[tuple[str, str], _Claim] = {}
_lock = threading.Lock()


def register(cluster: str, prefix: str, sink: Writer, query: Query) -> None:
    """Note that a sink writes with a prefix for a query. Raises :class:`ConfigError` where another one does."""
    with _lock:
        check_free(cluster, prefix, sink, query)
        _claims[cluster, prefix] = _Claim(sink, query)


def check_free(cluster: str, prefix: str, sink: object, query: Query | None) -> None:
    """Raise :class:`ConfigError` for a second writer with one prefix, by another sink or the same.

    ``query`` is None for a batch job.
    """
    held = _held(cluster, prefix)
    if held is None:
        return
    if query is not None and held.sink is not sink and held.query.run == query.run:
        raise ConfigError(
            f"this query has made a second sink with transactionalIdPrefix {prefix!r}. Nothing of the second was"
            " written. Make the sink once, outside of the foreachBatch function. For several outputs, write one"
            " DataFrame with a topic column, or use one sink and prefix each. If the first sink was called for this"
            f" batch: {PARTIAL_BATCH_HINT}",
            tag="PREFIX_IN_USE",
        )
    if held.sink is not sink or query is None or held.query.run != query.run:
        raise ConfigError(
            f"another live query or sink of this application has transactionalIdPrefix {prefix!r} (query"
            f" {held.query.name or held.query.id}). Nothing was written. Give each a sink and a prefix of its own.",
            tag="PREFIX_IN_USE",
        )


def check_owners(run: str) -> bool:
    """Return whether this run of a query has taken prefixes over. Raise :class:`~semel.errors.Fenced` if another driver
    has one of them now.
    """
    mine = [claim.sink for claim in list(_claims.values()) if claim.query.run == run]
    for sink in mine:
        sink.check_owner()
    return bool(mine)


def abort_open() -> None:
    """Abort what the sinks of this process have open: readers would wait for it until its timeout."""
    for (_, prefix), claim in list(_claims.items()):
        try:
            claim.sink.abort_open()
        except SemelError as error:
            log.warning("what %r has open was not aborted, and readers wait until its timeout: %s", prefix, error)


# whatever ends the program, but by a signal that ends it at once
atexit.register(abort_open)


def _held(cluster: str, prefix: str) -> _Claim | None:
    """Return the live query that writes with a prefix in this application."""
    held = _claims.get((cluster, prefix))
    return None if held is None or streaming_query.stopping(held.query.execution) else held
