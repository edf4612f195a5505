"""Objection 5: a batch is replayed after the sink has returned.

Every row of PROTOCOL 6 is in ``tests/spark/broker/test_precedence_rows.py``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from semel.sandbox import Sandbox
from tests.spark.support.copy_query import Line, backup, cut, restore
from tests.spark.support.topics_and_drivers import produce


def test_replayed_by_lost_commits_by_a_backup_and_from_a_new_checkpoint(
    spark: SparkSession, kafka: Sandbox, tmp_path: Path
) -> None:
    """One query lives through all of it."""
    line = Line.new(spark, kafka, tmp_path, "replayed")
    produce(kafka, line.source, range(200))
    line.run()
    saved = backup(line.checkpoint)
    for newest in (1, 2):
        cut(line.checkpoint, "commits", newest)
        line.run()
        line.assert_exact()
    produce(kafka, line.source, range(200, 300))
    line.run()
    restore(line.checkpoint, saved)
    line.run()
    line.assert_exact()
    shutil.rmtree(line.checkpoint)
    produce(kafka, line.source, range(300, 400))
    line.run(reading={"startingOffsets": "committed", "transactionalIdPrefix": line.prefix})
    line.assert_exact()
