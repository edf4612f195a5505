"""At least once, a file may ask for the rows that a reader of uncommitted ones sees."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from semel.sandbox import Sandbox
from tests.mirror.support.harness import alias_of, copy_once, mm2, records, transactions, unique
from tests.support import topics


def test_rows_of_aborted_and_open_transactions_arrive(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create(a.bootstrap_servers, unique("uncommitted"), 1)
    writer = transactions(a, topic, "caco")
    at_least_once = {"B.exactly.once.source.support": "disabled"}
    committed = mm2(tmp_path, a, b, topic, **at_least_once)
    everything = mm2(tmp_path, a, b, topic, **at_least_once, consumer__isolation__level="read_uncommitted")
    for file in (committed, everything):
        copy_once(spark, file)

    def values(file: Path) -> list[bytes | None]:
        return [value for _, value, _, _ in records(b, f"{alias_of(file)}.{topic}")[0]]

    rows = [[f"{number}-{row}-{end}".encode() for row in range(3)] for number, end in enumerate("caco")]
    assert values(committed) == [*rows[0], *rows[2]]
    assert values(everything) == [row for part in rows for row in part]
    writer.abort_transaction(60)
    copy_once(spark, everything)
    assert values(everything) == [row for part in rows for row in part]
