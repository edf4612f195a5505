"""A query whose state is what its function answers otherwise each time: an identity for each key. Its argument is an
:class:`Identity` as JSON.

In mid-batch, before any state is finished, it passes a step of its own, at which a plan may hold it.
"""

from __future__ import annotations

import logging
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from semel.spark import KafkaSink
from semel.steps import Step, reached
from tests.spark.support import bounded_runs
from tests.spark.support.json_argument import Argument

__all__ = ["FunctionStep", "Identity"]

_FIRST = "k0"


class FunctionStep(Step):
    """The function has been given its first key, and not answered yet."""

    ASKED = "asked"


@dataclass(frozen=True)
class Identity(Argument):
    """Rows of ``source`` are written to ``target`` with the identity of their key."""

    servers: str
    source: str
    target: str
    checkpoint: str


def main(job: Identity) -> None:
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("semel").setLevel(logging.INFO)
    spark = SparkSession.builder.getOrCreate()
    kafka = {"kafka.bootstrap.servers": job.servers}
    rows = spark.readStream.format("semel").options(**kafka, subscribe=job.source, startingOffsets="earliest").load()

    def identified(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        if key[0] == _FIRST:
            reached(FunctionStep.ASKED)
        identity = state.get[0] if state.exists else str(uuid.uuid4())
        state.update((identity,))
        yield pd.DataFrame({"value": [f"{key[0]} {identity}" for frame in frames for _ in frame.index]})

    keyed = rows.select(f.col("key").cast("string").alias("key")).groupBy("key")
    answers = keyed.applyInPandasWithState(
        identified, "value string", "identity string", "append", GroupStateTimeout.NoTimeout
    )
    sink = KafkaSink(topic=job.target, transactionalIdPrefix=job.target, **kafka)
    writer = answers.writeStream.foreachBatch(sink).option("checkpointLocation", job.checkpoint)
    bounded_runs.finish(bounded_runs.start(writer))
    spark.stop()


if __name__ == "__main__":
    main(Identity.parse(sys.argv[1]))
