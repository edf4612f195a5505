"""Before the tasks of a batch: take the prefix over, end what a predecessor has decided, run or skip.

Spark plans each batch in a process of its own, which lives as long as the query runs. Taking over commits what the
newest progress enlists, and aborts what else tasks had prepared (:mod:`semel.transaction.takeover`). What comes out
travels to the tasks, and with their messages to the process that commits.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from uuid import uuid4

from semel.config import ClientConfig
from semel.errors import ConfigError, Unsupported
from semel.spark.sink.job_version import is_due
from semel.spark.sink.micro_batch import PlannedBatch
from semel.spark.sink.progress_mismatch import Mismatch, OutputCheck, check_job_outputs, output_ids
from semel.spark.sink.reconcile import Run, reconcile
from semel.spark.worker_client import client as worker_client
from semel.spark.writer.checkpoint import Checkpoint
from semel.spark.writer.options import WriterOptions
from semel.steps import WriterStep, reached
from semel.transaction.group_offsets import group_view
from semel.transaction.hand_over import HandOver
from semel.transaction.ownership import DEFAULT_TIMEOUT_MS, longest_timeout_ms, protocol_deadline
from semel.transaction.producer import Producer
from semel.transaction.progress.record import Progress
from semel.transaction.transactional_id import IdKind, prepared_id
from semel.transaction.two_phase.producer import Mode
from semel.wire.api.transactions import Identity
from semel.wire.api.two_phase import init_unit
from semel.wire.metadata import TopicPartition
from semel.wire.metadata_cache import JUST_NOW_MS

__all__ = ["BatchPlan", "Decision", "plan_job", "plan_stream"]

log = logging.getLogger("semel.spark")


@dataclass(frozen=True, slots=True)
class Decision:
    """What the process that commits needs: the identity, and what its one transaction says besides the parts."""

    handed: HandOver
    scope: str
    progress: Progress
    group: str | None
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What the tasks of a batch need. Without ``write`` they read their rows, and write none: it is committed already.

    ``batch`` is Spark's number, or the version of a job; ``query`` is None for a job. ``decision`` is a pickled
    :class:`Decision`, which tasks pass on as it is.
    """

    options: WriterOptions
    batch: int
    query: str | None
    owner: Identity
    mode: Mode
    columns: tuple[str, ...]
    write: bool
    decision: bytes


@contextmanager
def _forgotten_after_errors() -> Iterator[None]:
    """Drop the owners of this process after an error: a fenced one stays fenced, and the next run is another owner."""
    try:
        yield
    except BaseException:
        _producer.cache_clear()
        raise


@_forgotten_after_errors()
def plan_stream(options: WriterOptions, columns: tuple[str, ...]) -> BatchPlan:
    """Plan the batch at hand of a streaming query.

    Raises what taking over raises, and :class:`~semel.errors.DataLoss` for a batch that does not continue from the
    progress (PROTOCOL 6).
    """
    checkpoint = Checkpoint(options.for_stream())
    query, number = checkpoint.query(), checkpoint.batch()

    client, sink = worker_client(options.config), options.sink
    producer = _producer(options.config, sink.prefix, sink.progress_topic, "query")
    before = producer.take_over(sink.outputs, sink.group)
    reached(WriterStep.TAKEN_OVER, str(number))
    planned = PlannedBatch(query, number, checkpoint.stateful(), checkpoint.sources(number))
    logged = checkpoint.ends(before.batch) if before is not None and before.batch is not None else None
    verdict = reconcile(planned, before, logged=logged, override=sink.override, prefix=sink.prefix)
    if isinstance(verdict, Mismatch):
        raise verdict.error()
    ids = output_ids(client.existing(sink.outputs, max_age_ms=JUST_NOW_MS))  # taking over has asked for them
    OutputCheck(before, sink.prefix, sink.progress_topic, sink.override).check(ids)
    write = isinstance(verdict, Run)
    if isinstance(verdict, Run) and verdict.overridden is not None:
        log.warning(
            "batch %d is run because onProgressMismatch says so, in spite of: %s", number, verdict.overridden.reason
        )
    if not write:
        log.info("batch %d of %r is committed already: its rows are read, and not written", number, sink.prefix)
    progress = Progress(query=query, batch=number, sources=planned.ends, outputs=ids)
    offsets = group_view(progress, client) if sink.group is not None else {}
    reached(WriterStep.PLANNED, f"{number} {type(verdict).__name__}")
    return _planned(options, columns, producer, "query", number, progress, offsets, query=query, write=write)


@_forgotten_after_errors()
def plan_job(options: WriterOptions, columns: tuple[str, ...]) -> BatchPlan:
    """Plan a batch job. Raises what taking over raises, and :class:`ConfigError` for a version that is too low."""
    client, sink = worker_client(options.config), options.sink
    producer = _producer(options.config, sink.prefix, sink.progress_topic, "batch")
    before = producer.take_over(sink.outputs)
    reached(WriterStep.TAKEN_OVER, str(options.version))
    done = before.batch if before is not None else None
    version, ids = options.version, output_ids(client.existing(sink.outputs, max_age_ms=JUST_NOW_MS))
    write = is_due(version, done, sink.prefix)
    if not write and version is not None:
        check_job_outputs(before, ids, sink.prefix, version)
    kept = before.outputs if version is None and before is not None else ids
    progress = Progress(batch=version if version is not None else done, outputs=kept)
    reached(WriterStep.PLANNED, str(version))
    return _planned(options, columns, producer, "batch", version or 0, progress, {}, query=None, write=write)


@cache
def _producer(config: ClientConfig, prefix: str, progress_topic: str, scope: str) -> Producer:
    """Return the owner that this process takes over again for each batch."""
    return Producer(worker_client(config), prefix, scope=scope, progress_topic=progress_topic, decides_only=True)


def _planned(
    options: WriterOptions,
    columns: tuple[str, ...],
    producer: Producer,
    scope: str,
    number: int,
    progress: Progress,
    offsets: Mapping[TopicPartition, int],
    *,
    query: str | None,
    write: bool,
) -> BatchPlan:
    handed = producer.hand_over()
    decision = Decision(handed, scope, progress, options.sink.group, offsets)
    mode = _mode(options.config, options.sink.prefix, options.two_phase)
    return BatchPlan(options, number, query, handed.identity, mode, columns, write, pickle.dumps(decision))


# ---- two-phase or bounded


@cache
def _mode(config: ClientConfig, prefix: str, two_phase: bool | None) -> Mode:
    """Return the mode of the tasks' transactions: what was asked for, else what the cluster offers. Found once a
    process, by taking an id that is used for nothing else.
    """
    if two_phase is False:
        return _bounded(config, "transaction.two.phase.commit.enable is false")
    client = worker_client(config)
    deadline = protocol_deadline(client)
    probe = prepared_id(prefix, IdKind.TASK, str(uuid4()), 0)
    timeout_ms = config.transaction_timeout_ms or min(DEFAULT_TIMEOUT_MS, longest_timeout_ms(client, deadline))
    try:
        init_unit(client, probe, timeout_ms, deadline, two_phase=True)
    except (ConfigError, Unsupported) as refused:
        if two_phase or refused.tag != "TWO_PHASE_OFF":
            raise
        return _bounded(config, "the cluster does not offer two-phase commit")
    return True


def _bounded(config: ClientConfig, why: str) -> Mode:
    log.warning(
        "tasks write in bounded transactions, because %s. If no driver runs for longer than transaction.timeout.ms"
        " (%s) right after a commit was decided, its rows are lost: the next start then stops with DataLoss.",
        why,
        config.transaction_timeout_ms or "15 minutes, or the broker's maximum",
    )
    return "bounded"
