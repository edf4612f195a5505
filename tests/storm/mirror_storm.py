"""The mirror in a storm: two clusters, one driver with executors, and a writer whose transactions are aborted now and
then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from confluent_kafka import KafkaException, Producer

from semel.errors import SemelError
from semel.steps import MirrorStep
from semel.testing.crash import Action, CrashPoint
from semel.testing.history import check
from semel.testing.spark import fork_server
from tests.mirror.support.harness import mm2, program, records
from tests.storm.checks import open_transactions, steps_refused
from tests.storm.faults import Striker, brokers, drivers, faults_on_the_wire, processes
from tests.storm.storm import Storm
from tests.storm.supervisor import SPARK, Keeper
from tests.storm.targets import executors_of, workers_of
from tests.support import topics

__all__ = ["MirrorStorm"]

_TOPIC, _TARGET, _PARTITIONS = "storm-in", "A.storm-in", 3
_LOT = 30
#: Short enough that a broker that is frozen is missed, and a driver's sleep may outlast its transaction.
_PATIENCE = {
    "request.timeout.ms": "5000",
    "socket.connection.setup.timeout.ms": "3000",
    "delivery.timeout.ms": "60000",
    "transaction.timeout.ms": "90000",
}


class MirrorStorm(Storm):
    """A flow from one cluster to another."""

    system = "mirror"
    promise = "every record of the source exactly once in the target, in its order, and no transaction open"

    def prepare(self, stack: ExitStack) -> Sequence[Keeper]:
        fork_server.python()  # once, before the threads that want it
        self._source, from_there = self.cluster(stack, "source")
        self._target, to_there = self.cluster(stack, "target")
        topics.create(self._source, _TOPIC, _PARTITIONS, self.plan.nodes)
        keys = {
            "replication.factor": str(self.plan.nodes),
            "checkpoints.topic.replication.factor": str(self.plan.nodes),
            "emit.checkpoints.interval.seconds": "5",
            "refresh.topics.interval.seconds": "5",
            "sync.topic.configs.interval.seconds": "5",
            **{f"{alias}.{name}": value for alias in ("A", "B") for name, value in _PATIENCE.items()},
            **({"B.exactly.once.source.support": "disabled"} if self.plan.control else {}),
        }
        file = mm2(self.outcome.directory, from_there, to_there, _TOPIC, alias="A", **keys)
        points = [CrashPoint(MirrorStep.COPIED, 2, Action.DRIVER)] if self.plan.control else []
        return [Keeper("mirror", program(file), self.outcome.directory / "steps", spark=SPARK, points=points)]

    def strikers(self) -> Mapping[str, Striker]:
        return {
            "driver": drivers(self.keepers, self.pause, others={"replaced": Keeper.replace}),
            "executor": processes(self.keepers, executors_of, self.pause, 4, 18),
            "worker": processes(self.keepers, workers_of, self.pause, 2, 9),
            "broker": brokers(self.clusters, self.pause),
            "wire": faults_on_the_wire(self.wires),
        }

    def feed(self) -> int:
        """Rows in transactions, of which each third is aborted. What a broker's end interrupts is there or not: the
        source alone says what must be copied.
        """
        lot, pause = 0, _LOT / self.plan.rows_a_second
        producer: Producer | None = None
        while not self.fed.wait(pause):
            try:
                producer = producer or self._writer()
                self._write(producer, lot)
            except KafkaException:  # the next one with this id aborts what is open
                producer = None
            lot += 1
        return 0

    def _writer(self) -> Producer:
        quiet = {"log_level": 2, "linger.ms": 2, "transactional.id": "storm-writer"}
        producer = Producer({"bootstrap.servers": self._source, **quiet})
        producer.init_transactions(60)
        return producer

    def _write(self, producer: Producer, lot: int) -> None:
        producer.begin_transaction()
        for number in range(lot * _LOT, (lot + 1) * _LOT):
            row = json.dumps({"id": number, "lot": lot})
            producer.produce(_TOPIC, row, key=f"k{number % 7}", partition=number % _PARTITIONS)
        if lot % 3 == 2:
            producer.flush(60)
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)

    def begun(self) -> bool:
        return self._copied() > 0

    def caught_up(self) -> bool:
        if not self.outcome.rows:
            self._writer()  # aborts what the last one has left open
            self.outcome.rows = sum(map(len, records(self._source, _TOPIC).values()))
        return self._copied() >= self.outcome.rows

    def where(self) -> str:
        return f"{self._copied()} of {self.outcome.rows} records are copied; {super().where()}"

    def _copied(self) -> int:
        return sum(map(len, records(self._target, _TARGET).values()))

    def verdict(self) -> list[str]:
        problems = [*open_transactions(self._source), *open_transactions(self._target)]
        try:
            history = check(
                self._target, _TARGET, source=_TOPIC, source_cluster=self._source, id="json:$.id", batch="json:$.lot"
            )
        except SemelError as error:  # an open transaction hides what is behind it
            return [*problems, f"it could not be checked: {error}"]
        if not history.exact:
            problems.append(f"not exactly once\n{history}")
        elif records(self._target, _TARGET) != records(self._source, _TOPIC):
            problems.append("records differ in their partition, order, key, headers or timestamp")
        return problems + [wrong for keeper in self.keepers for wrong in steps_refused(keeper)]
