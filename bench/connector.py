"""Spark's Kafka connector for the JVM, the peer that semel is measured against; fetched for the bench only, and kept in
semel's cache.

Its newest release may be older than PySpark, and of one of its parts older still: what is named here was seen to work
together on PySpark 4.3.
"""

from __future__ import annotations

from pathlib import Path

from semel.sandbox import ivy, jars

__all__ = ["CLIENTS_VERSION", "VERSION", "connector_jars"]

VERSION = "4.2.0"
#: The Kafka client that this connector is built with.
CLIENTS_VERSION = "3.9.2"
_PARTS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION),
    # not published with 4.2.0
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", CLIENTS_VERSION),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)


def connector_jars(*, progress: bool) -> list[Path]:
    """Return the connector and those of its dependencies that Spark lacks. Download them the first time."""
    return ivy.kept(
        jars.cache_directory() / "connector" / VERSION, _PARTS, f"Spark's Kafka connector {VERSION}", progress=progress
    )
