"""Exactly-once Kafka for Python: sources in, sinks out, on Spark through PySpark, with no JAR in the pipeline.

The public names are loaded when they are first used: importing ``semel`` alone imports neither pyspark nor typer.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from semel._version import __version__

if TYPE_CHECKING:
    from semel.cluster import Cluster
    from semel.errors import AbortAndRetry, ConfigError, DataLoss, Fenced, Retriable, SemelError, Unsupported
    from semel.transaction.session import Session
    from semel.transaction.ticket import GroupMetadata, Receipt, Ticket
    from semel.transaction.two_phase.prepared import Prepared

__all__ = [
    "AbortAndRetry",
    "Cluster",
    "ConfigError",
    "DataLoss",
    "Fenced",
    "GroupMetadata",
    "Prepared",
    "Receipt",
    "Retriable",
    "SemelError",
    "Session",
    "Ticket",
    "Unsupported",
    "__version__",
]

_HOME = {
    "Cluster": "semel.cluster",
    "GroupMetadata": "semel.transaction.ticket",
    "Prepared": "semel.transaction.two_phase.prepared",
    "Receipt": "semel.transaction.ticket",
    "Session": "semel.transaction.session",
    "Ticket": "semel.transaction.ticket",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'semel' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME.get(name, "semel.errors")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
