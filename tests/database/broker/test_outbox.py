"""The outbox on SQLite and on a real PostgreSQL: rows of the database and of Kafka, both or neither."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar, cast

import pyarrow as pa
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import create_async_engine

import semel
import semel.steps
from semel.database import Outbox, metadata
from semel.sandbox import Sandbox
from semel.steps import OutboxStep, TwoPhaseStep
from semel.testing.postgres import Postgres
from semel.testing.records import read
from tests.database.support.outbox_place import Base, Order, Place, at
from tests.support.topics import create

S = TypeVar("S", "sa.Select[Any]", sa.Delete)


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


def test_what_is_refused(brokers: Sandbox, postgres: Postgres, place: Place, tmp_path: Path) -> None:
    """Before anything is written to either side."""
    memory = sa.create_engine("sqlite://")
    careless = sa.create_engine(f"sqlite:///{tmp_path}/careless.db")
    sa.event.listen(careless, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=NORMAL"))
    off = sa.create_engine(postgres.url, connect_args={"options": "-c synchronous_commit=off"})
    for engine, setting in ((memory, "a file"), (careless, "synchronous=FULL"), (off, "synchronous_commit=on")):
        with pytest.raises(semel.ConfigError, match=f"DATABASE_NOT_DURABLE.*Set .*{setting}"):
            place.write(Outbox(engine, place.cluster, place.topic), 1)
    later = create_async_engine("postgresql+psycopg://nowhere/none")
    with pytest.raises(semel.ConfigError, match=r"DATABASE_KIND.*asynchronous driver.*sqlalchemy\.create_engine"):
        Outbox(cast("sa.Engine", later), place.cluster, place.topic)
    auto = sa.create_engine(place.url, isolation_level="AUTOCOMMIT")
    with pytest.raises(semel.ConfigError, match="DATABASE_AUTOCOMMIT"):
        Outbox(auto, place.cluster, place.topic)
    with pytest.raises(semel.ConfigError, match=r"WRONG_VALUE. the prefix"):
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
