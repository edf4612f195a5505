"""A sink for ``foreachBatch``: each micro-batch in a table of a database and in a topic, both or neither.

::

    write = semel.spark.database.sink(outbox, table="orders", topic="orders")
    rows.writeStream.foreachBatch(write).option("checkpointLocation", path).start()

The batch is one unit of the outbox, and how far it reads is in the owner row (PROTOCOL 6). Its rows pass the driver:
this is for batches of thousands of rows, not of millions.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from sqlalchemy import MetaData, Table
from sqlalchemy.exc import NoSuchTableError

from semel.database import Outbox, OutboxUnit
from semel.errors import AbortAndRetry, ConfigError, DataLoss, SemelError
from semel.spark.metrics.meter import BatchMetrics
from semel.spark.sink.foreach_batch import ForeachBatch, RunState, retried
from semel.spark.sink.micro_batch import MicroBatch
from semel.spark.sink.progress_mismatch import Mismatch
from semel.spark.sink.reconcile import Rebuild, Run, Skip
from semel.transaction.progress.record import Progress

__all__ = ["DatabaseSink", "sink"]

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


class DatabaseSink(ForeachBatch[None]):
    """See :func:`sink`."""

    def __init__(self, outbox: Outbox, table: str, topic: str | None, override: str | None) -> None:
        if outbox.workers > 1:
            raise ConfigError(
                f"an outbox with workers={outbox.workers} cannot keep a query's progress, which follows one batch after"
                " the other. Nothing was written. Make the outbox of a query with workers=1.",
                tag="WRONG_VALUE",
            )
        super().__init__(outbox.prefix, override)
        self._outbox, self._table, self._topic = outbox, table, topic

    def _start(self, batch: MicroBatch) -> None:
        """Leave it to the first unit of the run, which takes over by itself."""

    def _write_batch(
        self, df: DataFrame, batch: MicroBatch, run: RunState[None], measured: BatchMetrics
    ) -> Run | Skip | Rebuild:
        rows: pa.Table | None = None

        def write() -> Run | Skip | Rebuild:
            nonlocal rows
            with self._outbox.unit() as unit:
                kept = unit.progress
                before = Progress.decode(kept.encode(), "semel_outbox_owner") if kept is not None else None
                decision = self._decide(batch, before)
                if isinstance(decision, Run):
                    # collected once: what is written again are the same rows
                    rows = df.toArrow() if rows is None else rows
                    self._write(unit, rows)
                    query = batch.query
                    made = Progress(query=query.id, run=query.run, batch=batch.number, sources=batch.planned.ends)
                    unit.progress = made.encode().decode()
            return decision

        title = f"batch {batch.number} of {self._name!r}"
        return retried(write, _RETRIES, title, lambda failed: isinstance(failed, AbortAndRetry))[0]

    def _second_call(self) -> str:
        return ". Write several tables by outbox.unit() in a function of your own."

    def _refused(self, mismatch: Mismatch) -> SemelError:
        return DataLoss(
            f"{mismatch.reason} Nothing was written. (1) Restore the checkpoint that belongs to this database. (2) Run"
            f" this batch as it is, once: on_progress_mismatch='checkpoint:{mismatch.token}'.",
            tag=mismatch.tag,
        )

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
