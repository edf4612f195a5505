"""The Python that Spark starts its workers with: the one of ``PYSPARK_PYTHON``, else the ``python3`` of the PATH.

In a virtual environment that is not activated that is another Python, without semel. :func:`settle` runs when a program
imports a name of ``semel.spark``; ``semel doctor`` looks at :func:`workers_python`.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

from semel.errors import ConfigError
from semel.spark.jvm.context import active_context, java_runs

__all__ = ["settle", "workers_python", "wrong_python"]

log = logging.getLogger("semel.spark")

_VARIABLE = "PYSPARK_PYTHON"


def workers_python() -> tuple[str, str | None]:
    """Return what names the Python of Spark's workers on this machine, and its path; None where there is none."""
    named = os.environ.get(_VARIABLE)
    return (f"{_VARIABLE}={named}", shutil.which(named)) if named else ("python3 of the PATH", shutil.which("python3"))


@cache
def settle() -> None:
    """Give Spark this Python if the user has named none and Spark would take another.

    Spark's Java takes the variable along when it starts. Where it runs already, all that is left is to say so. A
    cluster's executors have Pythons of their own: where a cluster is named, nothing is done.
    """
    if os.environ.get(_VARIABLE) or os.environ.get("SPARK_PYTHON_RUNTIME") or _is_first_in_path():
        return
    master = _master()
    if master is not None and not master.startswith("local"):
        return
    if java_runs():
        log.warning(
            "Spark runs already, and starts its workers with the python3 of the PATH, which is not this Python. Set"
            " %s=%s before the session starts.",
            _VARIABLE,
            sys.executable,
        )
        return
    os.environ[_VARIABLE] = sys.executable
    log.warning(
        "%s is not set: Spark's workers get this Python, %s. Set it where executors have another.",
        _VARIABLE,
        sys.executable,
    )


def wrong_python() -> ConfigError:
    """Return what it means that Spark does not find ``format("semel")``, or not what semel needs."""
    name, path = workers_python()
    return ConfigError(
        f"the Python that Spark starts has no semel, or lacks what semel needs: {path or 'none'} ({name}). Nothing was"
        f" read or written. Set {_VARIABLE} to a Python that has it, before the session starts: this one is"
        f" {sys.executable}.",
        tag="WRONG_PYTHON",
    )


def _is_first_in_path() -> bool:
    found = shutil.which("python3")
    # not by what a link leads to: the Python of a virtual environment is a link to one that has no semel
    return found is not None and Path(found).parent == Path(sys.executable).parent


def _master() -> str | None:
    """Return the master as far as it is known by now: of the session, or as spark-submit named it."""
    active = active_context()
    if active is not None:
        return str(active.master)
    words = os.environ.get("PYSPARK_SUBMIT_ARGS", "").split()
    return next((after for word, after in pairwise(words) if word == "--master"), None)
