"""The assignment of output partitions to writing tasks (DESIGN section 7).

Rows with a key or a partition are encoded where they are (:mod:`semel.spark.sink.encode_stage`), and their record
batches are shuffled once, by ``repartitionById``, to the one task that holds the ticket of their partition: it gives
exactly the tasks that were asked for, whatever adaptive execution does (measured; ``rebalance`` and
``repartition(column)`` do not). Rows that may go anywhere are not shuffled: each task writes to partitions of its own,
which change from batch to batch. These are rows without a key, and, where each core has a partition to write, rows
whose key the plan itself makes null. Nor are those that one task has computed: it holds one ticket, for all partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from semel.records.codecs import Codec
from semel.spark.jvm import lineage
from semel.spark.sink.encode_stage import Encoder
from semel.spark.sink.shuffled_batches import COLUMNS
from semel.spark.version_guard import SealedStage, pack
from semel.transaction.ticket import TicketTopic
from semel.wire.metadata import TopicPartition

__all__ = ["Placement", "place"]


@dataclass(frozen=True, slots=True)
class Placement:
    """A DataFrame whose Spark partition ``i`` holds only what goes to the partitions in ``shares[i]``, of ``topics`` as
    they were looked at.

    It holds rows, for ``topic`` or for that which their column says, of which ``keys`` choose the partition or not; or
    ``encoded``: record batches (:data:`~semel.spark.sink.shuffled_batches.COLUMNS`). ``turn`` says with which partition
    rows begin that may go to any.
    """

    df: DataFrame
    shares: list[list[TopicPartition]]
    topics: Mapping[str, TicketTopic]
    topic: str | None
    keys: bool = False
    encoded: bool = False
    turn: int = 0

    @property
    def words(self) -> str:
        """For the log."""
        return f"{'shuffled to' if self.encoded else 'not shuffled,'} at most {len(self.shares)} tasks"


def place(
    df: DataFrame,
    topics: Mapping[str, TicketTopic],
    *,
    topic: str | None,
    any_partition: bool,
    codec: Codec,
    max_record: int,
    batch: int,
    one_task: bool = False,
) -> Placement:
    """Place the rows of ``df`` on tasks.

    ``topics`` are all that may be written, ``topic`` the one that all rows go to, if there is one; ``batch`` turns the
    tickets of free rows. ``one_task`` says that ``df`` has one partition.
    """
    names = sorted(topics)
    every = [(name, index) for name in names for index in range(topics[name].partitions)]
    if one_task:
        return Placement(df, [every], topics, topic, keys=not any_partition, turn=batch)
    cores = df.sparkSession.sparkContext.defaultParallelism
    tasks = max(1, min(len(every), cores))
    shares = [every[task::tasks] for task in range(tasks)]
    if topic is not None and "partition" not in df.columns:
        # with fewer tasks than cores, what is computed before would lose some of them
        if tasks == cores and not any_partition and "key" in df.columns and lineage.is_null_column(df, "key"):
            df = df.drop("key")
        if any_partition or "key" not in df.columns:
            turned = shares[batch % tasks :] + shares[: batch % tasks]
            return Placement(df.coalesce(tasks), turned, topics, topic)
    first = dict(zip(names, accumulate((topics[name].partitions for name in names), initial=0), strict=False))
    encoder = Encoder(topic, topics, first, tasks, not any_partition, codec, max_record)
    shuffled = df.mapInArrow(SealedStage(*pack(encoder)), COLUMNS).repartitionById(tasks, f.col("slot"))
    return Placement(shuffled, shares, topics, None, encoded=True)
