"""The outbox on SQLite and on a real PostgreSQL: rows of the database and of Kafka, both or neither."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import pyarrow as pa
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import semel
import semel.steps
from semel.database import Outbox, metadata
from semel.sandbox import Sandbox
from semel.sandbox.settings import TWO_PHASE_COMMIT
from semel.steps import OutboxStep, Step, TwoPhaseStep
from semel.testing.postgres import Postgres
from semel.testing.records import read
from semel.wire.api.describe_transactions import list_transactions
from tests.support.cut_commit import CommitProxy, Loses
from tests.support.topics import create
from tests.support.waiting import wait_for

S = TypeVar("S", "sa.Select[Any]", sa.Delete)
_numbers = count(1)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    topic: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)


@pytest.fixture(scope="module")
def brokers() -> Iterator[Sandbox]:
    soon = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with Sandbox.start(settings={**TWO_PHASE_COMMIT, **soon}) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


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


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, brokers: Sandbox, tmp_path: Path) -> Iterator[Place]:
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/orders.db" if sqlite else request.getfixturevalue("postgres").url
    yield from _place(brokers, url)


@pytest.fixture
def on_postgres(brokers: Sandbox, postgres: Postgres) -> Iterator[Place]:
    yield from _place(brokers, postgres.url)


def _place(brokers: Sandbox, url: str) -> Iterator[Place]:
    topic = create(brokers.bootstrap_servers, f"outbox-{next(_numbers)}", 2)
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


def test_both_or_neither(place: Place) -> None:
    outbox = place.outbox()
    place.write(outbox, 1)
    with pytest.raises(ZeroDivisionError):
        place.write(outbox, 2, fails=True)
    with pytest.raises(IntegrityError):
        place.write(outbox, 1)
    with pytest.raises(semel.ConfigError, match="UNKNOWN_TOPIC"):
        place.write(outbox, 3, topic="nowhere")
    place.write(outbox, 4)
    with outbox.unit() as unit:  # what the user does with the session decides nothing
        unit.session.add(Order(topic=place.topic, number=6))
        unit.session.flush()
        unit.session.rollback()
        unit.send(place.topic, pa.table({"value": ["5"]}))
        unit.session.add(Order(topic=place.topic, number=5))
        with unit.session.begin_nested() as part:
            unit.session.add(Order(topic=place.topic, number=7))
            part.rollback()
        unit.session.commit()
    assert place.both() == [1, 4, 5]
    assert (place.ongoing(), outbox.pending()) == ([], [])


def test_a_session_that_is_rolled_back_undoes_both(place: Place) -> None:
    """As after a flush that failed: the rows of the database are gone, and those of Kafka were sent before."""
    outbox = place.outbox()
    place.write(outbox, 1)

    def caught_inside() -> None:
        with outbox.unit() as unit:
            unit.send(place.topic, pa.table({"value": ["2"]}))
            unit.session.add(Order(topic=place.topic, number=1))
            with pytest.raises(IntegrityError):
                unit.session.flush()
            unit.session.rollback()

    with pytest.raises(semel.ConfigError, match="UNIT_ROLLED_BACK"):
        caught_inside()
    place.write(outbox, 3)
    assert place.both() == [1, 3]


def test_one_side_alone(place: Place) -> None:
    outbox = place.outbox()
    with outbox.unit() as unit:
        unit.session.add(Order(topic=place.topic, number=1))
    with outbox.unit() as unit:
        unit.send(place.topic, pa.table({"value": ["2"]}))
    with outbox.unit():
        pass
    assert (place.orders(), place.records()) == ([1], [2])


def test_a_version_is_written_once(place: Place) -> None:
    outbox = place.outbox()
    assert [place.write(outbox, number, version) for number, version in ((1, 0), (2, 7))] == [False, False]
    assert place.write(place.outbox(), 3, 7), "skipped, by the next owner too"
    outbox = place.outbox()
    place.write(outbox, 4)
    with pytest.raises(semel.ConfigError, match=r"OUTBOX_VERSION.*older than the newest one, 7"):
        place.write(outbox, 5, 6)
    place.write(outbox, 6, 8)
    assert place.both() == [1, 2, 4, 6]


def test_a_restored_older_copy_is_refused(place: Place) -> None:
    """Kafka still knows the units that the copy lacks: their versions would be written again."""
    outbox = place.outbox()
    place.write(outbox, 1, version=1)
    earlier = _copied(place)
    place.write(outbox, 2, version=2)
    second = _copied(place)
    _restore(place, earlier)
    for running in (outbox, outbox, place.outbox()):  # also one that has been running since before the copy
        with pytest.raises(semel.ConfigError, match="OUTBOX_OLDER_DATABASE"):
            place.write(running, 2, version=2)
    _restore(place, second)
    place.write(outbox, 3, version=3)
    place.write(place.outbox(), 4, version=4)  # a later process has ids of its own
    later = _copied(place)
    _restore(place, earlier)
    for _ in range(2):
        with pytest.raises(semel.ConfigError, match=r"OUTBOX_OLDER_DATABASE.*Nothing was written"):
            place.write(place.outbox(), 2, version=2)
    assert place.records() == [1, 2, 3, 4]
    _restore(place, later)
    outbox = place.outbox()
    place.write(outbox, 5, version=5)
    assert place.both() == [1, 2, 3, 4, 5]
    _restore(place, earlier)
    outbox = place.outbox()
    outbox.recover(older_database=True)
    with outbox.unit(version=5) as unit:  # without rows for Kafka: these are there
        unit.session.add_all([Order(topic=place.topic, number=number) for number in (2, 3, 4, 5)])
    place.write(place.outbox(), 6, version=6)
    assert place.both() == [1, 2, 3, 4, 5, 6]


def test_a_database_that_has_lost_the_outbox_is_refused(place: Place) -> None:
    nothing = _copied(place)
    place.write(place.outbox(), 1, version=1)
    _restore(place, nothing)
    with pytest.raises(semel.ConfigError, match="OUTBOX_OLDER_DATABASE"):
        place.write(place.outbox(), 1, version=1)
    assert (place.orders(), place.records()) == ([], [1])


def test_a_healthy_outbox_is_no_older_database(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units that were aborted, interrupted before and after the decision, of several owners and ids."""
    outbox = place.outbox()
    place.write(outbox, 1)
    with pytest.raises(ZeroDivisionError):
        place.write(outbox, 9, fails=True)
    for number, step in enumerate((TwoPhaseStep.PREPARED, OutboxStep.TEXT_WRITTEN, OutboxStep.DECIDED), 2):
        at(monkeypatch, step, _interrupt)
        with pytest.raises(KeyboardInterrupt):
            place.write(outbox, number)
        outbox = place.outbox()
        outbox.recover()
    place.write(outbox, 5)
    at(monkeypatch, OutboxStep.DECIDED, _interrupt)
    with pytest.raises(KeyboardInterrupt):
        place.write(outbox, 6)
    place.write(outbox, 7)
    place.outbox().recover()
    assert place.both() == [1, 4, 5, 6, 7]


def test_an_outbox_of_an_older_semel_goes_on(place: Place) -> None:
    """Its tables do not say which units are the newest: what Kafka has then is taken for these."""
    outbox = place.outbox()
    place.write(outbox, 1)
    with place.engine().begin() as connection:
        connection.execute(sa.text("DELETE FROM semel_outbox_newest WHERE prefix = :p"), {"p": place.topic})
        connection.execute(sa.text("UPDATE semel_outbox_owner SET format = 1 WHERE prefix = :p"), {"p": place.topic})
    earlier = _copied(place)
    place.write(place.outbox(), 2)
    place.write(place.outbox(), 3)
    assert place.both() == [1, 2, 3]
    _restore(place, earlier)
    place.outbox().recover()  # the copy is of before: it cannot know


def _interrupt() -> None:
    raise KeyboardInterrupt


def _copied(place: Place) -> dict[str, list[dict[str, Any]]]:
    """All rows of this place, as a backup has them."""
    tables = {**metadata.tables, "orders": Base.metadata.tables["orders"]}
    with place.engine().connect() as connection:
        there = sa.inspect(connection)
        return {
            name: [dict(row) for row in connection.execute(_of(place, table, sa.select(table))).mappings()]
            for name, table in tables.items()
            if there.has_table(name)
        }


def _restore(place: Place, copy: dict[str, list[dict[str, Any]]]) -> None:
    with place.engine().begin() as connection:
        for name, table in {**metadata.tables, "orders": Base.metadata.tables["orders"]}.items():
            connection.execute(_of(place, table, sa.delete(table)))
            if copy.get(name):
                connection.execute(table.insert(), copy[name])


def _of(place: Place, table: sa.Table, statement: S) -> S:
    return statement.where((table.c.topic if table.name == "orders" else table.c.prefix) == place.topic)


def test_threads_take_turns(place: Place) -> None:
    outbox = place.outbox()
    inside = threading.Event()

    def write(number: int) -> None:
        with outbox.unit() as unit:
            inside.set()
            unit.session.add(Order(topic=place.topic, number=number))
            unit.send(place.topic, pa.table({"value": [str(number)]}))

    with ThreadPoolExecutor(4) as pool:
        with outbox.unit() as unit:
            waiting = [pool.submit(write, number) for number in range(1, 9)]
            unit.session.add(Order(topic=place.topic, number=0))
            unit.send(place.topic, pa.table({"value": ["0"]}))
            assert not inside.is_set()
        for one in waiting:
            one.result(60)
    assert place.both() == list(range(9))


def test_a_second_owner_stops_the_first(place: Place) -> None:
    first, second = place.outbox(), place.outbox()
    place.write(first, 1)
    place.write(second, 2)
    for _ in range(2):
        with pytest.raises(semel.Fenced, match="another outbox has taken over"):
            place.write(first, 3)
    first.recover()
    place.write(first, 4)
    with pytest.raises(semel.Fenced):
        place.write(second, 5)
    assert place.both() == [1, 2, 4]


def test_a_second_owner_that_comes_in_the_middle_of_a_unit(on_postgres: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends what the first one has prepared, and the first one's COMMIT is refused."""
    first, second = on_postgres.outbox(), on_postgres.outbox()
    on_postgres.write(first, 1)
    at(monkeypatch, semel.steps.TwoPhaseStep.PREPARED, second.recover)
    with pytest.raises(semel.Fenced, match="its Kafka rows are aborted"):
        on_postgres.write(first, 2)
    on_postgres.write(second, 3)
    assert on_postgres.both() == [1, 3]
    assert on_postgres.ongoing() == []


@pytest.mark.parametrize("loses", ["request", "answer"])
def test_a_commit_that_is_not_answered(on_postgres: Place, postgres: Postgres, loses: Loses) -> None:
    """Lost with its answer it is done, and Kafka follows; lost before, nothing is there. Neither is guessed."""
    with CommitProxy(postgres.port) as proxy:
        engine = sa.create_engine(postgres.url.replace(str(postgres.port), str(proxy.port)))
        outbox = Outbox(engine, on_postgres.cluster, on_postgres.topic)
        on_postgres.write(outbox, 1)
        with outbox.unit() as unit:
            unit.session.add(Order(topic=on_postgres.topic, number=2))
            unit.send(on_postgres.topic, pa.table({"value": ["2"]}))
        with (
            pytest.raises(semel.AbortAndRetry, match=r"NOT_DECIDED.*Run it again")
            if loses == "request"
            else _nothing_raised(),
            outbox.unit() as unit,
        ):
            unit.session.add(Order(topic=on_postgres.topic, number=3))
            unit.send(on_postgres.topic, pa.table({"value": ["3"]}))
            proxy.arm(loses)
        assert not proxy.armed, "no COMMIT came by"
        on_postgres.write(outbox, 4)
        engine.dispose()
    assert on_postgres.both() == ([1, 2, 4] if loses == "request" else [1, 2, 3, 4])
    assert on_postgres.ongoing() == []


class _nothing_raised:  # noqa: N801
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    "step",
    [
        OutboxStep.DECISION_SENT,
        pytest.param(OutboxStep.OWNER_LOCKED, marks=pytest.mark.exhaustive),
        pytest.param(OutboxStep.DECIDED, marks=pytest.mark.exhaustive),
    ],
)
def test_postgresql_is_killed(
    on_postgres: Place, postgres: Postgres, monkeypatch: pytest.MonkeyPatch, step: OutboxStep
) -> None:
    """It is back a moment later. A decision that was answered is there; what was not decided is written again."""
    outbox = on_postgres.outbox()
    on_postgres.write(outbox, 1)

    back = threading.Timer(0.5, postgres.start)

    def strike() -> None:
        postgres.kill()
        back.start()

    at(monkeypatch, step, strike)
    if step is OutboxStep.DECIDED:
        on_postgres.write(outbox, 2)
    else:
        with pytest.raises(semel.AbortAndRetry, match="NOT_DECIDED"):
            on_postgres.write(outbox, 2)
        back.join()
        on_postgres.write(outbox, 2)
    back.join()
    on_postgres.write(outbox, 3)
    assert on_postgres.both() == [1, 2, 3]
    assert on_postgres.ongoing() == []


def test_an_interrupt_between_prepare_and_decision_leaves_nothing_open(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = place.outbox()

    def interrupt() -> None:
        raise KeyboardInterrupt

    for step in (OutboxStep.OWNER_LOCKED, OutboxStep.DECIDED):
        at(monkeypatch, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            place.write(outbox, 1)
        assert len(place.ongoing()) == 1
    place.write(outbox, 2)
    assert place.both() == [1, 2]
    assert place.ongoing() == []


def test_an_owner_that_was_interrupted_stops_no_living_successor(
    on_postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has to recover before its next unit, and finds that another one has come."""
    first, second = on_postgres.outbox(), on_postgres.outbox()

    def interrupt() -> None:
        raise KeyboardInterrupt

    at(monkeypatch, OutboxStep.DECIDED, interrupt)
    with pytest.raises(KeyboardInterrupt):
        on_postgres.write(first, 1)
    on_postgres.write(second, 2)
    for _ in range(2):
        with pytest.raises(semel.Fenced, match="another outbox has taken over"):
            on_postgres.write(first, 3)
    on_postgres.write(second, 4)
    assert on_postgres.both() == [1, 2, 4]


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", [OutboxStep.DECIDED, TwoPhaseStep.COMMIT_ANSWERED])
def test_brokers_that_are_away_after_the_decision(
    on_postgres: Place, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    """It is decided, and said so; the next unit lets Kafka follow."""
    servers = on_postgres.brokers.bootstrap_servers
    impatient = {"bootstrap.servers": servers, "delivery.timeout.ms": 4_000, "request.timeout.ms": 1_000}
    (node,) = on_postgres.brokers.nodes
    with semel.Cluster(impatient) as cluster:
        outbox = Outbox(on_postgres.engine(), cluster, on_postgres.topic)
        at(monkeypatch, step, node.kill)
        with pytest.raises(semel.Retriable, match=r"COMMIT_PENDING.*is decided.*Do not write it again"):
            on_postgres.write(outbox, 1)
    node.start()
    node.wait_ready(120, nodes=1)
    assert len(on_postgres.outbox().pending()) == 1
    on_postgres.write(on_postgres.outbox(), 2)
    assert on_postgres.both() == [1, 2]


class _Died(BaseException):
    pass


@pytest.mark.parametrize("mode", [True, "bounded"])
def test_down_for_longer_than_the_timeout_after_the_decision(
    on_postgres: Place, monkeypatch: pytest.MonkeyPatch, mode: Literal[True, "bounded"]
) -> None:
    """FLIP-319's appendix: in two-phase mode nothing is lost, in bounded mode it is said what was."""

    def die() -> None:
        raise _Died

    short = {"bootstrap.servers": on_postgres.brokers.bootstrap_servers, "transaction.timeout.ms": 1_000}
    with semel.Cluster(short) as cluster:
        outbox = Outbox(on_postgres.engine(), cluster, on_postgres.topic, two_phase=mode)
        at(monkeypatch, OutboxStep.DECIDED, die)
        with pytest.raises(_Died):
            on_postgres.write(outbox, 1)
        with cluster.producer(f"{on_postgres.topic}-control", two_phase="bounded") as producer:
            control = producer.transaction()
            control.send(on_postgres.topic, pa.table({"value": ["0"]}))
        wait_for(
            lambda: (
                not any(
                    name.startswith(f"{on_postgres.topic}-control")
                    for name in list_transactions(cluster._client, ["Ongoing"])
                )
            ),
            "what was begun later has expired",
        )
        successor = Outbox(on_postgres.engine(), cluster, on_postgres.topic, two_phase=mode)
        if mode is True:
            successor.recover()
        else:
            with pytest.raises(semel.DataLoss, match=r"PREPARED_LOST.*1 rows.*Write these Kafka rows again"):
                successor.recover()
            (lost,) = successor.pending()
            successor.forget(lost)
        on_postgres.write(successor, 2)
    assert on_postgres.orders() == [1, 2]
    assert on_postgres.records() == ([1, 2] if mode is True else [2])


def test_what_is_refused(brokers: Sandbox, postgres: Postgres, place: Place, tmp_path: Path) -> None:
    """Before anything is written to either side."""
    memory = sa.create_engine("sqlite://")
    careless = sa.create_engine(f"sqlite:///{tmp_path}/careless.db")
    sa.event.listen(careless, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=NORMAL"))
    off = sa.create_engine(postgres.url, connect_args={"options": "-c synchronous_commit=off"})
    for engine, setting in ((memory, "a file"), (careless, "synchronous=FULL"), (off, "synchronous_commit=on")):
        with pytest.raises(semel.ConfigError, match=f"OUTBOX_NOT_DURABLE.*Set .*{setting}"):
            place.write(Outbox(engine, place.cluster, place.topic), 1)
    later = create_async_engine("postgresql+psycopg://nowhere/none")
    with pytest.raises(semel.ConfigError, match=r"OUTBOX_DATABASE.*asynchronous driver.*sqlalchemy\.create_engine"):
        Outbox(cast("sa.Engine", later), place.cluster, place.topic)
    auto = sa.create_engine(place.url, isolation_level="AUTOCOMMIT")
    with pytest.raises(semel.ConfigError, match="OUTBOX_AUTOCOMMIT"):
        Outbox(auto, place.cluster, place.topic)
    with pytest.raises(semel.ConfigError, match="OUTBOX_PREFIX"):
        Outbox(place.engine(), place.cluster, "x" * 501)
    outbox = place.outbox()
    with outbox.unit() as unit:
        with pytest.raises(semel.ConfigError, match="open already in this thread"), outbox.unit():
            pass
        with pytest.raises(semel.ConfigError, match="open already in this thread"):
            outbox.recover()
    assert not unit.skipped
    child = os.fork()
    if not child:
        status = 1
        try:
            place.write(outbox, 1)
        except semel.ConfigError as error:
            status = 0 if error.tag == "FORKED" else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (place.both(), place.ongoing()) == ([], [])


def test_brokers_without_two_phase_commit(kafka: Sandbox, place: Place) -> None:
    """Refused in two-phase mode, with nothing in the database; taken in bounded mode."""
    create(kafka.bootstrap_servers, place.topic, 1)
    with semel.Cluster({"bootstrap.servers": kafka.bootstrap_servers}) as plain:
        with pytest.raises(semel.Unsupported, match=r"TWO_PHASE_OFF.*bounded"):
            place.write(Outbox(place.engine(), plain, place.topic), 1)
        place.write(Outbox(place.engine(), plain, place.topic, two_phase="bounded"), 2)
    assert place.orders() == [2]
    assert read(kafka.bootstrap_servers, [place.topic], {"value": "value"})["value"].to_pylist() == ["2"]
