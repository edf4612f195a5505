"""A batch job that is written again and again, while one of its executors is killed each time. Its argument is a
:class:`Spread` as JSON.

Its rows pass a shuffle of the user's own, which the writing tasks read slowly from both executors, so that a killed one
is missed in mid-write. (With a shuffle of the sink's, of keyed rows, Spark gives the whole job up by itself.) All rows
are equally large, and a task's batches are few: those of a second attempt have the sequences of the first, and the
broker, which remembers five, takes them for these. It prints a line for each round. ``proof`` off puts nothing in the
place of the proof: the control.
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from semel.spark import KafkaSink
from semel.spark.job.proof import Proof
from tests.spark.support.json_argument import Argument


@dataclass(frozen=True)
class Spread(Argument):
    """``topics`` gets one round each."""

    servers: str
    topics: list[str]
    rows: int
    proof: bool = True


def main(job: Spread) -> None:
    logging.basicConfig(level=logging.WARNING)
    if not job.proof:
        patch.object(Proof, "prove", lambda proof, receipts: None).start()
    spark = SparkSession.builder.getOrCreate()
    for topic in job.topics:
        value = f.format_string('{"id": "%08d", "padding": "%0900d"}', "id", f.lit(0))
        numbers = spark.range(0, job.rows, 1, 4).repartition(4, "id").select(value.alias("value"))
        options = {"kafka.bootstrap.servers": job.servers, "kafka.max.request.size": "8000000"}
        sink = KafkaSink(topic=topic, transactionalIdPrefix=topic, **options)
        totals = sink.write(numbers, version=1)
        assert totals is not None
        print(f"round {topic}: {totals.rows} rows, {totals.retries} retries", flush=True)
        arm()
    spark.stop()


def arm() -> None:
    """Let every crash point strike again: what counts passings is deleted."""
    for spent in Path(os.environ["SEMEL_CRASH_DIR"]).glob("ParticipantStep.*"):
        spent.unlink()


if __name__ == "__main__":
    main(Spread.parse(sys.argv[1]))
