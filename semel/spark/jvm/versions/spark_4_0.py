"""Spark 4.0: classes lie in other packages, ``repartitionById`` is missing, a stream's writer is handed rows, and
nobody validates that each store of state was committed.

Spark sends a row to the task that its hash names, Murmur3 modulo the number of tasks. So each task has a number whose
hash leads to it, and rows are repartitioned by it. A given number of tasks is kept, whatever adaptive execution does.
"""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from semel.spark.jvm.versions.spark_4_1 import Spark41

__all__ = ["VERSION", "Spark40", "numbers_of_tasks"]

_STREAMING = "org.apache.spark.sql.execution.streaming"
_32_BITS = 0xFFFFFFFF
_SEED = 42


class Spark40(Spark41):
    """Spark 4.0."""

    micro_batch: ClassVar[str] = f"{_STREAMING}.MicroBatchExecution"
    stateful_operator: ClassVar[str] = f"{_STREAMING}.StatefulOperator"
    domain_sockets: ClassVar[str | None] = None
    streams_arrow: ClassVar[bool] = False
    python_state: ClassVar[str] = "TransformWithStateInPandas"
    validates_state: ClassVar[bool] = False
    local_checkpoints: ClassVar[str] = f"{_STREAMING}.FileSystemBasedCheckpointFileManager"

    def repartition_by_slot(self, df: DataFrame, tasks: int, slot: str) -> DataFrame:
        """Send each row to the task that its integer column ``slot`` names: exactly ``tasks`` of them."""
        numbers = f.array(*map(f.lit, numbers_of_tasks(tasks)))
        return df.repartition(tasks, f.get(numbers, f.col(slot)))


@cache
def numbers_of_tasks(tasks: int) -> tuple[int, ...]:
    """Return a number for each task that Spark's hash partitioning sends there: the first that does."""
    numbers: dict[int, int] = {}
    for number in count():
        numbers.setdefault(_murmur3(number) % tasks, number)
        if len(numbers) == tasks:
            return tuple(numbers[task] for task in range(tasks))
    raise AssertionError("it counts for ever")


def _murmur3(number: int) -> int:
    """Return the hash of an integer of 4 bytes as Spark's Murmur3 does, signed."""
    mixed = number * 0xCC9E2D51 & _32_BITS
    mixed = _rotated(mixed, 15) * 0x1B873593 & _32_BITS
    hashed = _rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64 & _32_BITS
    hashed ^= 4
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _32_BITS
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _32_BITS
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >> 31 else hashed


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _32_BITS


VERSION = Spark40()
