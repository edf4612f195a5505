"""Queries with state, all in one application, each kept running until it has read what was there.

Its argument is a :class:`Stateful` as JSON.
"""

from __future__ import annotations

import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from semel.spark import KafkaSink, keep_running
from tests.spark.programs.begin import begin
from tests.spark.support import bounded_runs
from tests.spark.support.json_argument import Argument
from tests.spark.support.stateful_plans import FORMAT, PER_BATCH, PROVIDER, QUERIES


@dataclass(frozen=True)
class Stateful(Argument):
    """``outputs`` is the topic of each query; checkpoints are below ``directory``."""

    servers: str
    source: str
    outputs: dict[str, str]
    directory: str


def keep(spark: SparkSession, job: Stateful, name: str) -> None:
    """One query, in a session of its own, since the state store is a setting of the session."""
    plan, provider, version = QUERIES[name]
    spark.conf.set(PROVIDER, provider)
    spark.conf.set(FORMAT, str(version))
    kafka = {"kafka.bootstrap.servers": job.servers}

    def read() -> DataFrame:
        options = {"subscribe": job.source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(PER_BATCH)}
        options["minRecordsPerPartition"] = "1"
        return spark.readStream.format("semel").options(**kafka, **options).load()

    def start() -> StreamingQuery:
        sink = KafkaSink(topic=job.outputs[name], transactionalIdPrefix=job.outputs[name], **kafka)
        writer = (
            plan(read)
            .writeStream.queryName(name)
            .foreachBatch(sink)
            .option("checkpointLocation", f"{job.directory}/{name}")
        )
        return bounded_runs.start(writer)

    keep_running(start)


def main(job: Stateful) -> None:
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("semel").setLevel(logging.INFO)
    spark = SparkSession.builder.getOrCreate()
    begin(spark, job.servers, job.source, f"{job.directory}/begin")
    with ThreadPoolExecutor(3) as pool:  # more at once start so many Python processes that Spark waits for some in vain
        for done in [pool.submit(keep, spark.newSession(), job, name) for name in job.outputs]:
            done.result()
    spark.stop()


if __name__ == "__main__":
    main(Stateful.parse(sys.argv[1]))
