"""Kafka Connect on Spark: source connectors in Python, each record exactly once (KIP-618).

A worker starts the tasks of its connectors on Spark executors. A task polls its source and writes what it got, and how
far it got, in one Kafka transaction.

==============  ======================================================================================================
``api``         what the author of a connector imports
``config``      a worker's and a connector's properties
``plugins``     classes of connectors and converters, by Python's names and by Kafka Connect's
``worker``      the driver: checks the cluster, keeps the tasks running
``tasks``       the side on the executor: from a poll to a transaction
``stores``      the offsets topic, in Kafka Connect's own format
``converters``  values to bytes
``connectors``  the connectors that semel brings
==============  ======================================================================================================
"""

from __future__ import annotations

from semel.connect.api import Setting, SourceBatch, SourceConnector, SourceRecord, SourceTask, TaskContext

__all__ = ["Setting", "SourceBatch", "SourceConnector", "SourceRecord", "SourceTask", "TaskContext"]
