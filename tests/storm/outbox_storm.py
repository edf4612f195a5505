"""Outboxes in a storm: programs that write units to PostgreSQL and Kafka, and a database that is struck as brokers
are.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from random import Random
from typing import ClassVar

import sqlalchemy as sa

from semel.config import ClientConfig
from semel.errors import SemelError
from semel.sandbox.settings import TWO_PHASE_COMMIT
from semel.steps import OutboxStep
from semel.testing.postgres import Postgres
from semel.testing.records import read
from semel.wire.api.describe_transactions import list_transactions
from semel.wire.client import Client
from tests.database.support.outbox_program import orders
from tests.storm.checks import open_transactions
from tests.storm.faults import Striker, brokers, drivers, faults_on_the_wire
from tests.storm.storm import Storm
from tests.storm.supervisor import Keeper
from tests.storm.wire import OF_TWO_PHASES
from tests.support import topics

__all__ = ["OutboxStorm"]

_TOPICS = ("storm-orders", "storm-bills")
_ENDLESS = "100000000"


class OutboxStorm(Storm):
    """Two programs, each with a prefix and a topic of its own, and one database."""

    system = "outbox"
    promise = "database and topics have the same rows, each once, nothing is prepared, and no transaction open"
    apis: ClassVar[Mapping[str, int]] = OF_TWO_PHASES

    def prepare(self, stack: ExitStack) -> Sequence[Keeper]:
        self._servers, through = self.cluster(stack, "kafka", TWO_PHASE_COMMIT)
        self._postgres = stack.enter_context(Postgres())
        self._engine = sa.create_engine(self._postgres.url, poolclass=sa.NullPool)
        self._calm: dict[str, int] = {}
        return [self._keeper(topics.create(self._servers, topic, 3, self.plan.nodes), through) for topic in _TOPICS]

    def _keeper(self, topic: str, through: str) -> Keeper:
        home, order = self.outcome.directory, "naive" if self.plan.control else "outbox"
        program = [sys.executable, "-m", "tests.database.support.outbox_program"]
        argv = [*program, through, topic, self._postgres.url, _ENDLESS, order, str(home / "stop")]
        steps, taken = home / f"{topic}-steps", OutboxStep.OWNER_RAISED
        return Keeper(topic, argv, steps, replaceable=not self.plan.control, stop=home / "stop", taken=taken)

    def strikers(self) -> Mapping[str, Striker]:
        others = {} if self.plan.control else {"replaced": Keeper.replace}
        return {
            "program": drivers(self.keepers, self.pause, others=others, pauses=(3, 12)),
            "database": Striker(4, 20, ("killed", "frozen"), self._database),
            "broker": brokers(self.clusters, self.pause),
            "wire": faults_on_the_wire(self.wires),
        }

    def _database(self, action: str, random: Random) -> str:
        seconds = random.choice((0.5, 2.0, 6.0))
        if action == "killed":
            self._postgres.kill()
            self.pause(seconds)
            self._postgres.start()
        else:
            self._postgres.freeze()
            try:
                self.pause(seconds)
            finally:
                self._postgres.thaw()
        return action

    def feed(self) -> int:
        """The programs make their rows themselves."""
        self.fed.wait()
        return 0

    def begun(self) -> bool:
        return all(self._rows(topic) > 0 for topic in _TOPICS)

    def caught_up(self) -> bool:
        """Each program has written since it is calm: what was left is recovered before that."""
        rows = {topic: self._rows(topic) for topic in _TOPICS}
        self._calm = self._calm or rows
        return all(rows[topic] > self._calm[topic] for topic in _TOPICS)

    def _rows(self, topic: str) -> int:
        with self._engine.connect() as connection:
            if not sa.inspect(connection).has_table(orders.name):
                return 0
            counted = sa.select(sa.func.count()).where(orders.c.topic == topic)
            return int(connection.execute(counted).scalar_one())

    def where(self) -> str:
        return f"rows in the database: { {topic: self._rows(topic) for topic in _TOPICS} }"

    def verdict(self) -> list[str]:
        self.outcome.rows = sum(self._rows(topic) for topic in _TOPICS)
        problems = list(open_transactions(self._servers))
        for topic in _TOPICS:
            try:
                problems += [f"{topic}: {wrong}" for wrong in self._differences(topic)]
            except SemelError as error:  # an open transaction hides what is behind it
                problems.append(f"{topic}: it could not be checked: {error}")
        return problems

    def _differences(self, topic: str) -> list[str]:
        with self._engine.connect() as connection:
            stored = connection.execute(sa.select(orders.c.value).where(orders.c.topic == topic)).scalars().all()
            texts = [] if self.plan.control else self._texts(connection, topic)
        written = read(self._servers, [topic], {"value": "value"})["value"].to_pylist()
        lost, surplus = Counter(stored) - Counter(written), Counter(written) - Counter(stored)
        wrong = []
        if lost or surplus:
            lost_one, more = sorted(lost)[:3], sorted(surplus)[:3]
            wrong.append(
                f"not exactly once: {lost.total()} rows are in the database alone, such as {lost_one};"
                f" {surplus.total()} are in the topic alone or there twice, such as {more}"
            )
        with Client(ClientConfig.parse({"bootstrap.servers": self._servers})) as client:
            left = [name for name in list_transactions(client, ["Ongoing"]) if name.startswith(f"{topic}.unit.")]
        if left or texts:
            wrong.append(f"left over: {[*left, *texts]}")
        return wrong

    def _texts(self, connection: sa.Connection, topic: str) -> list[str]:
        prepared = sa.text("SELECT text FROM semel_outbox_prepared WHERE prefix = :p")
        return list(connection.execute(prepared, {"p": topic}).scalars())
