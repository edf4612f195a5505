"""A declarative pipeline: from one Kafka topic to another, exactly once.

Start a broker (``semel broker``) and make both topics, then::

    spark-pipelines run --spec examples/pipelines/spark-pipeline.yml

The settings are in that file. Each flow into the sink is a streaming query of its own, so it has a prefix of its own.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
servers = {"kafka.bootstrap.servers": spark.conf.get("orders.kafka.bootstrap.servers")}

dp.create_sink(
    "orders",
    "semel",
    {**servers, "topic": spark.conf.get("orders.to"), "transactionalIdPrefix": "orders-pipeline"},
)


@dp.append_flow(target="orders")
def copy() -> DataFrame:
    """Read what is there, and pass it on."""
    source = spark.readStream.format("semel").options(**servers)
    source = source.option("subscribe", spark.conf.get("orders.from")).option("startingOffsets", "earliest")
    return source.load().select("key", "value")
