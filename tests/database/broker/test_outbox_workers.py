"""Several units of one outbox at a time: each is both or neither, and an owner that comes stops all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pytest
import sqlalchemy as sa

import semel
from semel.database import Outbox
from semel.sandbox import Sandbox
from semel.steps import OutboxStep
from semel.testing.postgres import Postgres
from tests.database.support.outbox_place import Order, Place, at, make_place
from tests.support.cut_commit import CommitProxy, Loses
from tests.support.waiting import PATIENCE_S

WORKERS = 4


@pytest.fixture
def place(brokers: Sandbox, postgres: Postgres) -> Iterator[Place]:
    yield from make_place(brokers, postgres.url)


def void(_: object) -> None: ...


def outbox_of(place: Place, engine: sa.Engine | None = None) -> Outbox:
    return Outbox(engine or place.engine(), place.cluster, place.topic, workers=WORKERS)


def write_together(place: Place, outbox: Outbox, numbers: range, inside: threading.Barrier) -> list[Future[bool]]:
    """Each unit waits in its block until all of them are in theirs."""

    def write(number: int) -> bool:
        with outbox.unit() as unit:
            unit.session.add(Order(topic=place.topic, number=number))
            unit.send(place.topic, pa.table({"value": [str(number)]}))
            inside.wait()
        return True

    with ThreadPoolExecutor(len(numbers)) as pool:
        return [pool.submit(write, number) for number in numbers]


def test_four_at_a_time(place: Place) -> None:
    outbox = outbox_of(place)
    for begin in range(0, 12, WORKERS):
        inside = threading.Barrier(WORKERS, timeout=PATIENCE_S)
        together = write_together(place, outbox, range(begin, begin + WORKERS), inside)
        assert all(one.result() for one in together)
    assert place.both() == list(range(12))
    assert place.ongoing() == []
    assert outbox.pending() == []


def test_control_one_worker_runs_one_at_a_time(place: Place) -> None:
    outbox = place.outbox()
    together = write_together(place, outbox, range(2), threading.Barrier(2, timeout=1))
    assert {type(one.exception()) for one in together} == {threading.BrokenBarrierError}
    assert place.both() == []


def test_a_second_owner_stops_all_of_them(place: Place) -> None:
    """It comes while they are inside, ends what they have sent, and their COMMITs are refused."""
    first, second = outbox_of(place), outbox_of(place)
    place.write(first, 0)
    inside = threading.Barrier(WORKERS, action=lambda: void(second.recover()), timeout=PATIENCE_S)
    together = write_together(place, first, range(1, 1 + WORKERS), inside)
    assert all(isinstance(one.exception(), semel.SemelError) for one in together), together
    with pytest.raises(semel.Fenced, match="another outbox has taken over"):
        place.write(first, 7)
    place.write(second, 8)
    assert place.both() == [0, 8]
    assert place.ongoing() == []


def test_a_second_owner_waits_for_a_commit_that_is_under_way(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shared lock on the owner row holds it back as the exclusive one does: what it reads is decided or never."""
    first, second = outbox_of(place), outbox_of(place)
    place.write(first, 0)
    came: list[threading.Thread] = []

    def come() -> None:
        came.append(threading.Thread(target=second.recover))
        came[0].start()
        came[0].join(1)
        assert came[0].is_alive(), "it did not wait"

    at(monkeypatch, OutboxStep.TEXT_WRITTEN, come)
    place.write(first, 1)  # decided, and then another one is the owner
    with pytest.raises(semel.Fenced):
        place.write(first, 2)
    came[0].join(PATIENCE_S)
    place.write(second, 3)
    assert place.both() == [0, 1, 3]
    assert place.ongoing() == []


@pytest.mark.parametrize("loses", ["request", "answer"])
def test_a_commit_that_is_not_answered_beside_others(place: Place, postgres: Postgres, loses: Loses) -> None:
    """The units beside it are decided before the number rises, or run again. None is torn, and none is guessed."""
    written: set[int] = set()
    with CommitProxy(postgres.port) as proxy:
        engine = sa.create_engine(postgres.url.replace(str(postgres.port), str(proxy.port)))
        outbox = outbox_of(place, engine)
        place.write(outbox, 0)
        inside = threading.Barrier(WORKERS, action=lambda: proxy.arm(loses), timeout=PATIENCE_S)
        together = write_together(place, outbox, range(1, 1 + WORKERS), inside)
        assert not proxy.armed, "no COMMIT came by"
        for number, one in enumerate(together, 1):
            error = one.exception()
            if error is None:
                written.add(number)
            else:
                assert isinstance(error, semel.AbortAndRetry), error
        place.write(outbox, 9)
        engine.dispose()
    assert (len(written) < WORKERS) is (loses == "request") or loses == "answer"
    assert place.both() == sorted({0, 9, *written})
    assert place.ongoing() == []


def test_a_commit_that_the_database_refuses_disturbs_no_other(place: Place) -> None:
    """A deferred constraint is looked at in the COMMIT. The answer is no, and so nothing is in doubt."""
    engine = place.engine()
    with engine.begin() as connection:
        connection.exec_driver_sql(f'CREATE TABLE "{place.topic}" (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)')
        connection.exec_driver_sql(f'INSERT INTO "{place.topic}" VALUES (0)')
    outbox = outbox_of(place, engine)
    place.write(outbox, 0)
    inside = threading.Barrier(WORKERS, timeout=PATIENCE_S)

    def write(number: int) -> None:
        with outbox.unit() as unit:
            unit.session.add(Order(topic=place.topic, number=number))
            unit.session.execute(sa.text(f'INSERT INTO "{place.topic}" VALUES (:n)'), {"n": number % WORKERS})
            unit.send(place.topic, pa.table({"value": [str(number)]}))
            inside.wait()

    with ThreadPoolExecutor(WORKERS) as pool:
        together = [pool.submit(write, number) for number in range(1, 1 + WORKERS)]
    errors = [one.exception() for one in together]
    assert errors[:3] == [None] * 3
    assert isinstance(errors[3], sa.exc.IntegrityError), errors[3]  # of the unit's rows: unchanged
    place.write(outbox, 9)
    assert place.both() == [0, 1, 2, 3, 9]
    assert place.ongoing() == []


def test_a_unit_with_a_version_runs_alone(place: Place) -> None:
    outbox = outbox_of(place)
    assert not place.write(outbox, 1, version=1)
    place.write(outbox, 2)
    assert place.write(outbox, 3, version=1)
    with outbox.unit(version=2) as unit:
        unit.progress = "2"
    with outbox.unit() as unit:
        assert unit.progress == "2"
    assert place.both() == [1, 2]


def test_progress_of_units_side_by_side_is_refused(place: Place) -> None:
    outbox = outbox_of(place)

    def write() -> None:
        with outbox.unit() as unit:
            unit.session.add(Order(topic=place.topic, number=1))
            unit.send(place.topic, pa.table({"value": ["1"]}))
            unit.progress = "1"

    with pytest.raises(semel.ConfigError, match=r"ILLEGAL_STATE.*has set unit\.progress.*Give the unit a version"):
        write()
    assert place.both() == []
    assert place.ongoing() == []


@pytest.mark.parametrize("workers", [0, -1, True, 1.5, "4"])
def test_a_number_of_workers_that_is_none(place: Place, workers: object) -> None:
    with pytest.raises(semel.ConfigError, match=r"WRONG_VALUE.*whole number"):
        Outbox(place.engine(), place.cluster, place.topic, workers=workers)  # type: ignore[arg-type]


def test_several_workers_on_sqlite_are_refused(place: Place) -> None:
    with pytest.raises(semel.ConfigError, match=r"WRONG_VALUE.*one writer at a time"):
        Outbox(sa.create_engine("sqlite:////tmp/no.db"), place.cluster, place.topic, workers=2)
