"""A database and brokers with an outbox between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import pyarrow as pa
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import semel
import semel.steps
from semel.database import Outbox
from semel.sandbox import Sandbox
from semel.steps import Step
from semel.testing.records import read
from semel.wire.api.describe_transactions import list_transactions
from tests.support.topics import create

numbers = count(1)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    topic: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)


@dataclass
class Place:
    """A database and a topic."""

    brokers: Sandbox
    url: str
    topic: str
    cluster: semel.Cluster

    def engine(self) -> sa.Engine:
        return sa.create_engine(self.url)

    def outbox(self) -> Outbox:
        return Outbox(self.engine(), self.cluster, self.topic)

    def orders(self) -> list[int]:
        with self.engine().connect() as connection:
            found = connection.execute(sa.select(Order.number).where(Order.topic == self.topic))
            return sorted(found.scalars())

    def records(self) -> list[int]:
        """What readers see now, whatever is open."""
        seen = read(self.brokers.bootstrap_servers, [self.topic], {"value": "value"}, wait_for_open=False)
        return sorted(int(value) for value in seen["value"].to_pylist())

    def both(self) -> list[int]:
        assert self.orders() == self.records(), "torn"
        return self.orders()

    def ongoing(self) -> list[str]:
        listed = list_transactions(self.cluster._client, ["Ongoing"])
        return [known for known in listed if known.startswith(f"{self.topic}.unit.")]

    def write(
        self, outbox: Outbox, number: int, version: int | None = None, *, topic: str = "", fails: bool = False
    ) -> bool:
        """Returns whether it was skipped."""
        with outbox.unit(version=version) as unit:
            unit.session.add(Order(topic=self.topic, number=number))
            unit.send(topic or self.topic, pa.table({"value": [str(number)]}))
            assert 1 / (not fails)
        return unit.skipped


def make_place(brokers: Sandbox, url: str) -> Iterator[Place]:
    topic = create(brokers.bootstrap_servers, f"outbox-{next(numbers)}", 2)
    Base.metadata.create_all(sa.create_engine(url))
    with semel.Cluster({"bootstrap.servers": brokers.bootstrap_servers}) as cluster:
        yield Place(brokers, url, topic, cluster)


def at(monkeypatch: pytest.MonkeyPatch, where: Step, strike: Callable[[], object]) -> None:
    """Do it once, when this process passes the step."""
    left = [strike]

    def observe(step: Step, detail: str) -> None:
        if step is where and left:
            left.pop()()

    monkeypatch.setattr(semel.steps, "_observer", observe)
