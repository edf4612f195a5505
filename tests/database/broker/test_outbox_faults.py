"""The outbox when owners, the database or brokers fail in the middle: both or neither all the same."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import pyarrow as pa
import pytest
import sqlalchemy as sa

import semel
import semel.steps
from semel.database import Outbox
from semel.sandbox import Sandbox
from semel.steps import OutboxStep, Step, TwoPhaseStep
from semel.testing.postgres import Postgres
from semel.wire.api.describe_transactions import list_transactions
from tests.database.support.outbox_place import Order, Place, at, make_place
from tests.support.cut_commit import CommitProxy, Loses
from tests.support.waiting import wait_for


@pytest.fixture
def on_postgres(brokers: Sandbox, postgres: Postgres) -> Iterator[Place]:
    yield from make_place(brokers, postgres.url)


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
