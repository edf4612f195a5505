"""The Spark session of a command, and what every job that writes asks of a session.

PySpark is imported when it is used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from semel.errors import ConfigError, Unsupported

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["check_no_speculation", "spark_session"]

_PYTHON = "PYSPARK_PYTHON"


def spark_session(
    name: str, master: str | None, settings: Mapping[str, str], *, otherwise: str | None = None
) -> SparkSession:
    """Return a classic session: that of spark-submit, where it has started this program.

    Without ``master`` the environment decides, else ``otherwise``, else Spark. With a local master, Python workers use
    this program's Python, unless PYSPARK_PYTHON or a setting names another: the one on the PATH may lack semel. Raise
    :class:`Unsupported` for Spark Connect.
    """
    from pyspark.sql import SparkSession

    if (master or "").startswith("sc://") or os.environ.get("SPARK_REMOTE"):
        raise Unsupported(
            "Spark Connect gives no access to Spark's driver. Nothing was started. Give --master a classic Spark"
            " cluster, and unset SPARK_REMOTE.",
            tag="SPARK_CONNECT",
        )
    submitted = "--master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "") or "PYSPARK_GATEWAY_PORT" in os.environ
    master = master or (None if submitted else otherwise)
    here = master.startswith("local") if master else not submitted
    if here and "spark.pyspark.python" not in settings:
        os.environ.setdefault(_PYTHON, sys.executable)
    builder = SparkSession.builder.appName(name).config("spark.ui.showConsoleProgress", "false")
    if here:
        # over TCP each task waits 40 ms for its Python; on a cluster the hosts must have short paths for it (0019)
        builder = builder.config("spark.python.unix.domain.socket.enabled", "true")
    if master:
        builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def check_no_speculation(context: SparkContext, meaning: str) -> None:
    """Raise :class:`ConfigError` if Spark may run two attempts of a task at once.

    ``meaning`` says what that means for the data.
    """
    if (context._conf.get("spark.speculation") or "").strip().lower() == "true":
        raise ConfigError(
            "spark.speculation is on: it runs two attempts of a task at once, and both would write into one"
            f" transaction. {meaning} Set spark.speculation=false.",
            tag="SPECULATION",
        )
