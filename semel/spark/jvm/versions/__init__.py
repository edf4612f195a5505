"""What differs between Spark's minor versions: one small module a version, and nothing else compares their numbers.

=========================  ===========================================================================================
``spark_4_3``              ``Spark43``: what semel asks of a version, and the newest answers
``spark_4_2``              4.2
``spark_4_1``              4.1: sources are known by position, and one batch is all that ``availableNow`` makes
``spark_4_0``              4.0: other packages, and another way to place rows on tasks
``planner``                what both kinds of stream readers ask of semel's planner
``reader_with_limits``     the stream reader of 4.2 and newer: Spark names a start and a limit
``reader_without_limits``  the stream reader before 4.2: it keeps the end that came last
=========================  ===========================================================================================

A module imports what only its version has, so only the running one is loaded. A minor version that is newer than all of
them is taken for the newest, with one warning: what it lacks is refused by name when it is needed.
"""

from __future__ import annotations

import importlib
import logging
import re
from functools import cache
from typing import TYPE_CHECKING

import pyspark

from semel.errors import Unsupported

if TYPE_CHECKING:
    from semel.spark.jvm.versions.spark_4_3 import Spark43

__all__ = ["SUPPORTED", "current", "version_of"]

log = logging.getLogger("semel.spark")

#: The minor versions that have a module, the oldest first.
SUPPORTED = ((4, 0), (4, 1), (4, 2), (4, 3))


@cache
def current() -> Spark43:
    """Return what differs in the PySpark that runs. Raise :class:`Unsupported` if it is too old."""
    return version_of(pyspark.__version__)


def version_of(text: str) -> Spark43:
    """Return what differs in a version of PySpark, as ``pyspark.__version__`` names it. Vendors add to the number."""
    number = _minor(text)
    if number < SUPPORTED[0]:
        raise Unsupported(
            f"PySpark {text} is older than 4.0, the first with all that semel needs. Nothing was read or written."
            " Install PySpark 4.0 to 4.3.",
            tag="SPARK_VERSION",
        )
    if number > SUPPORTED[-1]:
        log.warning(
            "PySpark %s is newer than 4.3, the newest that semel was tested with. What it lacks is refused by name.",
            text,
        )
    major, minor = min(number, SUPPORTED[-1])
    module = importlib.import_module(f"{__name__}.spark_{major}_{minor}")
    version: Spark43 = module.VERSION
    return version


def _minor(text: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)
