"""The checks of a query and of Spark's settings before the first batch."""

from __future__ import annotations

import logging
from contextlib import suppress

from pyspark.sql import DataFrame

from semel.errors import ConfigError, Unsupported
from semel.spark.jvm.passed_on import columns_of_source
from semel.spark.jvm.values import Settings, Trigger
from semel.spark.sink.micro_batch import Query

__all__ = ["check_query", "check_settings", "note_slow_sockets", "warn_of_source_columns"]

log = logging.getLogger("semel.spark")

_LEAST_KEPT = 100
#: What a column of the source does to the output where it is written on.
_EFFECTS = {
    "partition": "each row goes to the partition number it was read from, whatever its key",
    "timestamp": "each row keeps its time, by which the output's retention counts",
}


def check_query(query: Query) -> None:
    """Refuse a query whose batches cannot be recognised after a restart."""
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


def check_settings(settings: Settings) -> None:
    """Refuse settings under which tasks write twice, or Spark forgets what it has run."""
    if settings.speculation:
        raise ConfigError(
            "spark.speculation is on: it runs two attempts of a task at once, and both would write into one"
            " transaction. Nothing was written. Set spark.speculation=false.",
            tag="SPECULATION",
        )
    for what, kept in (("Stages", settings.retained_stages), ("Jobs", settings.retained_jobs)):
        if kept < _LEAST_KEPT:
            raise ConfigError(
                f"spark.ui.retained{what}={kept} is below {_LEAST_KEPT}: Spark could forget what it has run before it"
                " has confirmed it. Nothing was written. Raise it.",
                tag="RETAINED_STAGES" if what == "Stages" else "RETAINED_JOBS",
            )


def note_slow_sockets(settings: Settings) -> None:
    """Log that tasks wait for their Python, which one setting of Spark spares them (docs/decisions/0019)."""
    if not settings.domain_sockets:
        log.info(
            "spark.python.unix.domain.socket.enabled is off: each Python task waits 40 ms for its first bytes. Set it"
            " to true where Spark is started."
        )


def warn_of_source_columns(df: DataFrame, query: Query) -> None:
    """Warn where the source's own ``partition`` or ``timestamp`` is written on: seldom is that what was meant."""
    found: list[str] = []
    with suppress(Unsupported):  # a warning is not worth a query
        found = sorted(columns_of_source(df, query.execution, _EFFECTS))
    if found:
        effects = "; ".join(f"{name}: {_EFFECTS[name]}" for name in found)
        names = ", ".join(repr(name) for name in found)
        log.warning("the query writes columns of its source on. %s. Otherwise: drop(%s).", effects, names)
