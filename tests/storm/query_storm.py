"""Spark queries in a storm: each a driver program with executors of its own; all read one topic."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from semel.testing.spark import fork_server
from tests.spark.support.topics_and_drivers import source_ends
from tests.storm.checks import verdict
from tests.storm.faults import Striker, brokers, drivers, faults_on_the_wire, processes
from tests.storm.job import KINDS, STATELESS, USERS, Job, row
from tests.storm.storm import Plan, Storm, patient_producer
from tests.storm.supervisor import SPARK, Keeper
from tests.storm.targets import executors_of, workers_of
from tests.support import topics

__all__ = ["SOURCE", "QueryKeeper", "QueryStorm"]

SOURCE, SOURCE_PARTITIONS, OUTPUT_PARTITIONS = "storm-in", 3, 4
#: Rows of one lot are written together.
_LOT = 100
_PER_BATCH = 2_000


class QueryKeeper(Keeper):
    """Keeps the driver of a query."""

    def __init__(self, job: Job, directory: Path) -> None:
        # two drivers of a stateful query write one state, and Spark keeps them apart only at its next commit
        argv = [sys.executable, "-m", "tests.storm.query", str(job)]
        # by a file: Spark's Java would be told by a signal, too
        stop = Path(job.stop)
        super().__init__(job.kind, argv, directory, spark=SPARK, replaceable=job.kind in STATELESS, stop=stop)
        self.job = job


class QueryStorm(Storm):
    """All kinds of queries, or those that are named."""

    system = "queries"
    promise = "every row of the source exactly once in each output, no transaction open, every position at the end"

    def __init__(
        self, plan: Plan, directory: Path, say: Callable[[str], None] = print, kinds: Sequence[str] = KINDS
    ) -> None:
        super().__init__(plan, directory, say)
        self._kinds = kinds
        self._ends: dict[int, int] = {}

    def prepare(self, stack: ExitStack) -> Sequence[Keeper]:
        fork_server.python()  # once, before the threads that want it
        self.servers, through = self.cluster(stack, "kafka")
        topics.create(self.servers, SOURCE, SOURCE_PARTITIONS, self.plan.nodes)
        self.queries = [self._keeper(kind, through) for kind in self._kinds]
        names = [keeper.job.group for keeper in self.queries]
        self._groups = {
            name: Consumer({"bootstrap.servers": self.servers, "group.id": name, "log_level": 2}) for name in names
        }
        for consumer in self._groups.values():
            stack.callback(consumer.close)
        return self.queries

    def _keeper(self, kind: str, through: str) -> QueryKeeper:
        home = self.outcome.directory / kind
        stop = str(self.outcome.directory / "stop")
        job = Job(kind, through, SOURCE, str(home / "checkpoint"), stop, _PER_BATCH)
        topics.create(self.servers, job.target, OUTPUT_PARTITIONS, self.plan.nodes)
        return QueryKeeper(job, home / "steps")

    def strikers(self) -> Mapping[str, Striker]:
        return {
            "driver": drivers(self.keepers, self.pause),
            "executor": processes(self.keepers, executors_of, self.pause, 4, 18),
            "worker": processes(self.keepers, workers_of, self.pause, 2, 9),
            "broker": brokers(self.clusters, self.pause),
            "wire": faults_on_the_wire(self.wires),
        }

    def feed(self) -> int:
        producer = patient_producer(self.servers)
        pause, lot = _LOT / self.plan.rows_a_second, 0
        while True:
            for number in range(lot * _LOT, (lot + 1) * _LOT):
                key, value = row(number, lot)
                producer.produce(SOURCE, key=key, value=value, partition=int(key[1:]) % SOURCE_PARTITIONS)
            lot += 1
            if self.fed.wait(pause):
                break
            producer.poll(0)
        left = producer.flush(300)
        assert not left, f"{left} rows of the source were not taken by the brokers within 300 s"
        return lot * _LOT

    def begun(self) -> bool:
        return all(sum(self._positions(keeper).values()) > 0 for keeper in self.queries)

    def caught_up(self) -> bool:
        self._ends = self._ends or source_ends(self.servers, SOURCE)
        return all(self._positions(keeper) == self._ends for keeper in self.queries)

    def where(self) -> str:
        return f"the groups stand at { {keeper.job.kind: self._positions(keeper) for keeper in self.queries} }"

    def verdict(self) -> list[str]:
        return verdict(self.servers, self.queries)

    def _positions(self, keeper: QueryKeeper) -> dict[int, int]:
        """What the group of a query shows.

        By one client for each, kept: those that come and go while brokers fail end in a broken librdkafka.
        """
        asked = [TopicPartition(SOURCE, index) for index in range(SOURCE_PARTITIONS)]
        try:
            found = self._groups[keeper.job.group].committed(asked, timeout=10)
        except KafkaException:  # its coordinator is down or moves
            return {}
        return {each.partition: max(each.offset, 0) for each in found}


assert USERS >= SOURCE_PARTITIONS, "each partition of the source has rows"
