"""The SparkContext of this process, and its Java, where PySpark's public names do not show them.

It imports nothing of PySpark: a program that has not loaded it has no context, and loading it costs workers half a
second.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["active_context", "java_runs"]


def _contexts() -> Any:
    """Return PySpark's class of contexts, if it is loaded."""
    return getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)


def active_context() -> SparkContext | None:
    """Return the context that is active, or None. It starts none."""
    context: SparkContext | None = getattr(_contexts(), "_active_spark_context", None)
    return context


def java_runs() -> bool:
    """Return True if Spark's Java has been started: it does not see later changes of the environment."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or getattr(_contexts(), "_gateway", None) is not None
