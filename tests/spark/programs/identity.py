"""A query whose state is what its function answers otherwise each time: an identity for each key. Its argument is an :class:`Identity` as JSON.

The first process of all that comes upon the key :data:`HELD` waits in the function, in mid-batch, until it is let go.
"""

from __future__ import annotations

import logging
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from semel.spark import KafkaSink
from tests.spark.argument import Argument
from tests.waiting import wait_for

__all__ = ["HELD", "Identity"]

HELD = "held"


@dataclass(frozen=True)
class Identity(Argument):
    """Rows of ``source`` are written to ``target`` with the identity of their key. What all processes share is in ``directory``."""

    servers: str
    source: str
    target: str
    directory: str

    @property
    def waiting(self) -> Path:
        """There when the first one waits."""
        return Path(self.directory) / "waiting"

    @property
    def go(self) -> Path:
        """Lets it go."""
        return Path(self.directory) / "go"


def main(job: Identity) -> None:
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("semel").setLevel(logging.INFO)
    spark = SparkSession.builder.getOrCreate()
    kafka = {"kafka.bootstrap.servers": job.servers}
    rows = spark.readStream.format("semel").options(**kafka, subscribe=job.source, startingOffsets="earliest").load()

    def identified(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        if key[0] == HELD and _first(job.waiting):
            wait_for(job.go.exists, "to be let go", 300)
        identity = state.get[0] if state.exists else str(uuid.uuid4())
        state.update((identity,))
        yield pd.DataFrame({"value": [f"{key[0]} {identity}" for frame in frames for _ in frame.index]})

    keyed = rows.select(f.col("key").cast("string").alias("key")).groupBy("key")
    answers = keyed.applyInPandasWithState(identified, "value string", "identity string", "append", GroupStateTimeout.NoTimeout)
    sink = KafkaSink(topic=job.target, transactionalIdPrefix=job.target, **kafka)
    writer = answers.writeStream.foreachBatch(sink).option("checkpointLocation", f"{job.directory}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


def _first(file: Path) -> bool:
    try:
        file.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


if __name__ == "__main__":
    main(Identity.parse(sys.argv[1]))
