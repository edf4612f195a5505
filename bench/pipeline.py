"""The driver program that ``recovery`` kills: one query that copies a topic, by semel or by Spark's JVM connector.

Its argument is JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bench.connector import connector_jars
from bench.rig import session
from semel.spark import KafkaSink

__all__ = ["JVM", "Pipeline"]

#: In place of a delivery: both ends by the JVM connector, at-least-once.
JVM = "jvm"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """``delivery`` is semel's, or :data:`JVM`; ``kafka`` are the options of both ends."""

    source: str
    target: str
    delivery: str
    kafka: Mapping[str, str]
    directory: str

    def __str__(self) -> str:
        return json.dumps(asdict(self))

    def run(self) -> None:
        """Until it is killed, without a pause between batches."""
        jvm = self.delivery == JVM
        spark = session(connector_jars(progress=False) if jvm else [], Path(self.directory))
        writer = self._to_jvm(self._rows(spark, "kafka")) if jvm else self._to_semel(self._rows(spark, "semel"))
        writer.option("checkpointLocation", f"{self.directory}/checkpoint").trigger(
            processingTime="0 seconds"
        ).start().awaitTermination()

    def _rows(self, spark: SparkSession, name: str) -> DataFrame:
        reader = spark.readStream.format(name).options(**self.kafka, subscribe=self.source, startingOffsets="earliest")
        return reader.load().select("key", "value")

    def _to_semel(self, rows: DataFrame) -> DataStreamWriter:
        sink = KafkaSink(topic=self.target, transactionalIdPrefix=self.target, delivery=self.delivery, **self.kafka)
        return rows.writeStream.foreachBatch(sink)

    def _to_jvm(self, rows: DataFrame) -> DataStreamWriter:
        return rows.writeStream.format("kafka").options(topic=self.target, **self.kafka)


if __name__ == "__main__":
    Pipeline(**json.loads(sys.argv[1])).run()
