"""What sinks refuse in a query and in Spark's settings, before the first batch."""

from __future__ import annotations

from semel.errors import ConfigError, Unsupported
from semel.spark.jvm.values import Settings, Trigger
from semel.spark.sink.micro_batch import Query

__all__ = ["check_query", "check_settings"]

_LEAST_KEPT = 100


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
