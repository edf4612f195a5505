"""A streaming pipeline, exactly once, from topic to topic on your own broker.

python examples/pipeline.py localhost:9092 orders priced /tmp/priced-checkpoint
"""

import logging
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from semel.spark import KafkaSink, keep_running

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark starts its workers with the python3 of the PATH
if len(sys.argv) != 5:
    sys.exit(__doc__)
servers, source, target, checkpoint = sys.argv[1:5]
logging.basicConfig()
logging.getLogger("semel").setLevel(logging.INFO)  # one line a commit
# Without this setting each task waits 40 ms for its Python.
sockets = {"spark.python.unix.domain.socket.enabled": "true"}
spark = SparkSession.builder.appName("priced").config(map=sockets).getOrCreate()
kafka = {"kafka.bootstrap.servers": servers}

orders = (
    spark.readStream.format("semel")
    .options(**kafka)
    .option("subscribe", source)
    .option("kafka.group.id", "priced")
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", "100000")
    .load()
)
priced = orders.selectExpr("key", "upper(cast(value as string)) as value")

# The prefix names this query for good: its progress is kept under it, and a driver that starts with it stops one that
# ran before. The source's offsets are committed to the group in the same transaction, so that lag tools agree with the
# output.
sink = KafkaSink(topic=target, transactionalIdPrefix="priced", **kafka)


def start() -> StreamingQuery:
    """Start the query; called again after an error that asks for it."""
    writer = priced.writeStream.queryName("priced").foreachBatch(sink).option("checkpointLocation", checkpoint)
    return writer.trigger(processingTime="1 second").start()


keep_running(start)
