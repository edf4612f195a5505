"""Kafka Connect on Spark: connectors in Python; sources write each record exactly once (KIP-618).

A worker starts the tasks of its connectors on Spark executors. A task polls its source and writes what it got, and how
far it got, in one Kafka transaction.

=======================  ===============================================================================================
``api``                  what the author of a source imports
``sink_api``             what the author of a sink imports
``settings``             a worker's file, and a connector's properties, each problem at its setting
``plugins``              classes of connectors and converters, by Python's names and by Kafka Connect's
``own_converters``       converters of the user's own
``worker``               the driver: checks the cluster, joins the group, and leads it or stands by
``herder``               what can be done with connectors, and what runs of it
``rest``                 Kafka Connect's REST interface, and the page for browsers, whose files are in ``web``
``metrics``              what the tasks have done, for Prometheus
``stores``               its three topics, in its own formats
``tasks``                a source's side on the executor: from a poll to a transaction
``sinks``                a sink's side: from its group's records to the target, and to the commit of their offsets
``task_report``          what a task of either kind reports to its worker
``columns``              columns of Arrow from a database's values, each as if it stood alone
``converters``           values to bytes, by the data model of ``semel.serdes.schemas``
``registry_converters``  converters that register schemas: Avro, JSON Schema, Protobuf
``transforms``           records changed, routed or left out on their way
``connectors``           the connectors that semel brings
=======================  ===============================================================================================
"""

from __future__ import annotations

from semel.connect.api import (
    Field,
    Schema,
    Setting,
    SourceBatch,
    SourceConnector,
    SourceRecord,
    SourceTask,
    Struct,
    TaskContext,
    TransactionContext,
    arrow_field,
)
from semel.connect.own_converters import Converter
from semel.connect.sink_api import SinkBatch, SinkConnector, SinkContext, SinkRecord, SinkTask
from semel.connect.transforms import Data, Predicate, Record, Transform
from semel.settings.providers import ConfigProvider

__all__ = [
    "ConfigProvider",
    "Converter",
    "Data",
    "Field",
    "Predicate",
    "Record",
    "Schema",
    "Setting",
    "SinkBatch",
    "SinkConnector",
    "SinkContext",
    "SinkRecord",
    "SinkTask",
    "SourceBatch",
    "SourceConnector",
    "SourceRecord",
    "SourceTask",
    "Struct",
    "TaskContext",
    "TransactionContext",
    "Transform",
    "arrow_field",
]
