"""The state of a stateful query, brought past a batch that is committed."""

from __future__ import annotations

import logging

from pyspark.sql import DataFrame

from semel.spark.sink.micro_batch import Query

__all__ = ["rebuild_state"]

log = logging.getLogger("semel.spark")


def rebuild_state(df: DataFrame, query: Query, batch: int) -> None:
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
