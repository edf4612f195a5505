"""Spark 4.2: as 4.3. Users cannot name sources there, so every name is None."""

from __future__ import annotations

from semel.spark.jvm.versions.spark_4_3 import Spark43

__all__ = ["VERSION", "Spark42"]


class Spark42(Spark43):
    """Spark 4.2."""


VERSION = Spark42()
