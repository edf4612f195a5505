"""A batch job that writes a table to a topic: all of it becomes visible at once, or nothing; the same version again is
skipped.

python examples/batch_job.py localhost:9092 daily-report 20261121
"""

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from semel.spark import KafkaSink

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark starts its workers with the python3 of the PATH
if len(sys.argv) != 4:
    sys.exit(__doc__)
servers, topic, version = sys.argv[1:4]
spark = SparkSession.builder.appName("daily-report").getOrCreate()

report = spark.range(100_000).select(f.col("id").cast("string").alias("key"), f.to_json(f.struct("id")).alias("value"))
sink = KafkaSink(topic=topic, transactionalIdPrefix="daily-report", **{"kafka.bootstrap.servers": servers})
totals = sink.write(report, version=int(version))
print(
    "skipped: this version is committed already"
    if totals is None
    else f"{totals.rows:,} rows in {totals.milliseconds:.0f} ms"
)
