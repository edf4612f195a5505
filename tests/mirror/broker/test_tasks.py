"""The proof for a plain job: its one stage ran once, by Spark's books and by the receipts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from semel.errors import AbortAndRetry
from semel.spark.job.proof import prove_tasks
from semel.transaction.ticket import Receipt
from semel.wire.api.transactions import Identity
from tests.mirror.support.harness import unique

TASKS = 2
Task = Callable[[Iterable[int]], Iterator[tuple[int, int]]]


def context() -> TaskContext:
    found = TaskContext.get()
    assert found is not None
    return found


def once(_: Iterable[int]) -> Iterator[tuple[int, int]]:
    yield context().partitionId(), context().stageId()


def fails_first(rows: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Its second attempt answers as if it were the first."""
    if context().partitionId() == 1 and context().attemptNumber() == 0:
        raise ValueError("once")
    return once(rows)


def receipts(spark: SparkSession, task: Task) -> list[Receipt]:
    spark.sparkContext.setJobGroup(unique("tasks"), "")
    found = spark.sparkContext.parallelize(range(TASKS), TASKS).mapPartitions(task).collect()
    return [Receipt(number, Identity("id", 1, 0), {}, stage, number) for number, stage in found]


def test_tasks_that_ran_once(spark: SparkSession) -> None:
    for _ in range(3):
        prove_tasks(spark, receipts(spark, once))


def test_a_task_that_ran_again(spark: SparkSession) -> None:
    with pytest.raises(AbortAndRetry, match=r"UNPROVEN.*ran again \(attempt 0, 1 failed tasks\)"):
        prove_tasks(spark, receipts(spark, fails_first))


def test_a_receipt_that_is_missing(spark: SparkSession) -> None:
    with pytest.raises(AbortAndRetry, match=r"UNPROVEN.*had 2 tasks, of which 2 ended, and 1 receipts came back"):
        prove_tasks(spark, receipts(spark, once)[1:])


def test_receipts_of_two_stages(spark: SparkSession) -> None:
    with pytest.raises(AbortAndRetry, match=r"UNPROVEN.*the receipts name stages"):
        prove_tasks(spark, [receipts(spark, once)[0], receipts(spark, once)[1]])
