"""A sink for ``foreachBatch``: each micro-batch in a table of a database and in a topic, both or neither.

::

    write = semel.spark.database.sink(outbox, table="orders", topic="orders")
    rows.writeStream.foreachBatch(write).option("checkpointLocation", path).start()

The batch is one unit of the outbox, and how far it reads is in the owner row (PROTOCOL 6). Its rows pass the driver:
this is for batches of thousands of rows, not of millions.
"""

from __future__ import annotations

import logging

import pyarrow as pa
from pyspark.sql import DataFrame
from sqlalchemy import MetaData, Table
from sqlalchemy.exc import NoSuchTableError

from semel.database import Outbox, OutboxUnit
from semel.errors import AbortAndRetry, ConfigError, DataLoss, SemelError
from semel.spark.errors import QueryStopped
from semel.spark.jvm import streaming_query
from semel.spark.sink.micro_batch import MicroBatch, Query, observe
from semel.spark.sink.progress_mismatch import Mismatch
from semel.spark.sink.query_checks import check_query
from semel.spark.sink.rebuild import rebuild_state
from semel.spark.sink.reconcile import Rebuild, Run, Skip, reconcile
from semel.transaction.progress.record import Progress

__all__ = ["DatabaseSink", "sink"]

log = logging.getLogger("semel.spark")

_RECORD = ("key", "value", "partition", "timestamp", "headers")
_RETRIES = 3


def sink(
    outbox: Outbox, *, table: str, topic: str | None = None, on_progress_mismatch: str | None = None
) -> DatabaseSink:
    """Return what ``foreachBatch`` calls. The outbox belongs to this query alone.

    Columns that ``table`` has go there; ``key``, ``value``, ``partition``, ``timestamp`` and ``headers`` also go to
    ``topic``. A column that neither has is refused. ``on_progress_mismatch="checkpoint:<token>"`` runs one batch that
    was refused, by the token of the refusal.
    """
    return DatabaseSink(outbox, table, topic, on_progress_mismatch)


class DatabaseSink:
    """See :func:`sink`."""

    def __init__(self, outbox: Outbox, table: str, topic: str | None, override: str | None) -> None:
        self._outbox, self._table, self._topic, self._override = outbox, table, topic, override
        self._query: Query | None = None
        self._last: int | None = None

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write one micro-batch. Raises what stops the query."""
        batch = observe(df, self._query)
        query = batch.query
        try:
            self._enter(query, batch)
            self._micro_batch(df, batch)
        except BaseException as raised:
            if not isinstance(raised, SemelError) and streaming_query.stopping(query.execution):
                raise QueryStopped from None
            raise

    def _enter(self, query: Query, batch: MicroBatch) -> None:
        if self._query is None or self._query.run != query.run:
            check_query(query)
            self._query, self._last = query, None
        if batch.number == self._last:
            raise ConfigError(
                f"the sink was called twice for batch {batch.number}. Nothing of the second call was written. Write"
                " several tables by outbox.unit() in a function of your own.",
                tag="SECOND_CALL",
            )
        self._last = batch.number

    def _micro_batch(self, df: DataFrame, batch: MicroBatch) -> None:
        query = batch.query
        rows: pa.Table | None = None
        for attempt in range(_RETRIES + 1):
            try:
                with self._outbox.unit() as unit:
                    decision = self._decide(batch, unit.progress)
                    if isinstance(decision, Run):
                        # collected once: what is written again are the same rows
                        rows = df.toArrow() if rows is None else rows
                        self._write(unit, rows)
                        made = Progress(query=query.id, run=query.run, batch=batch.number, sources=batch.planned.ends)
                        unit.progress = made.encode().decode()
                break
            except AbortAndRetry as aborted:
                if attempt == _RETRIES:
                    raise
                log.warning("batch %d is written again: %s", batch.number, aborted)
        if isinstance(decision, Skip):
            log.info("batch %d is committed already: skipped", batch.number)
        elif isinstance(decision, Rebuild):
            rebuild_state(df, query, batch.number)

    def _decide(self, batch: MicroBatch, kept: str | None) -> Run | Skip | Rebuild:
        progress = Progress.decode(kept.encode(), "semel_outbox_owner") if kept is not None else None
        number = progress.batch if progress is not None else None
        decision = reconcile(
            batch.planned,
            progress,
            logged=batch.positions(number) if number is not None else None,
            override=self._override,
        )
        if isinstance(decision, Mismatch):
            raise DataLoss(
                f"{decision.reason} Nothing was written. (1) Restore the checkpoint that belongs to this database. (2)"
                f" Run this batch as it is, once: on_progress_mismatch='checkpoint:{decision.token}'.",
                tag=decision.tag,
            )
        return decision

    def _write(self, unit: OutboxUnit, rows: pa.Table) -> None:
        connection = unit.session.connection()
        try:
            table = Table(self._table, MetaData(), autoload_with=connection)
        except NoSuchTableError:
            raise ConfigError(
                f"the database has no table {self._table!r}. Nothing was written. Create it, or correct its name.",
                tag="NO_TABLE",
            ) from None
        columns = [name for name in rows.column_names if name in table.columns]
        record = [name for name in rows.column_names if name in _RECORD] if self._topic is not None else []
        left = set(rows.column_names) - {*columns, *record}
        if left or not columns:
            raise ConfigError(
                f"table {self._table!r} has no column {', '.join(sorted(left or rows.column_names))}, and a Kafka"
                " record neither. Nothing was written. Drop the column, or rename it.",
                tag="EXTRA_COLUMN",
            )
        if rows.num_rows:
            unit.session.execute(table.insert(), rows.select(columns).to_pylist())
        if self._topic is not None:
            unit.send(self._topic, rows.select(record))
