"""Streams of a pattern on a broker: topics that come later, and topics that are deleted."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from semel.config import ClientConfig
from semel.errors import ConfigError, DataLoss
from semel.read.ranges import NO_END, Range, id_text
from semel.streams import App
from semel.streams.worker.worker import Worker
from semel.transaction.session.inputs import RowOrder
from semel.transaction.session.last_known import LastKnown
from semel.transaction.session.reader import SessionReader
from semel.wire.client import Client
from tests.streams.support.applications import fill, names, values
from tests.support.topics import create
from tests.support.waiting import wait_for

SOON_MS = 300


@pytest.fixture
def name() -> str:
    return f"pattern-{next(names)}"


def app_of(servers: str, name: str, folder: Path, **more: object) -> App:
    properties = {"bootstrap.servers": servers, "state.dir": str(folder), "commit.interval.ms": 50, **more}
    app = App(name, **properties)
    rows = app.stream(re.compile(f"{name}-in-.*"), key="string", value="string")
    rows.group_by_key().count("counts").to_stream().to(f"{name}-out")
    return app


def delete(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic])[topic].result(30)


@contextmanager
def running(*apps: App) -> Iterator[list[BaseException]]:
    """Run a worker of each application. Yield the errors that they ended with."""
    errors: list[BaseException] = []

    def run(app: App) -> None:
        try:
            app.run()
        except BaseException as error:  # the test looks at it
            errors.append(error)

    threads = [threading.Thread(target=run, args=(app,)) for app in apps]
    for thread in threads:
        thread.start()
    try:
        yield errors
    finally:
        for app in apps:
            app.stop()
        for thread in threads:
            thread.join()


def test_what_a_pattern_finds_is_said(
    servers: str, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for output, said in ((f"of-{name}", "no topic fits its patterns yet"), (f"{name}-out", "without end")):
        create(servers, output)
        app = App(f"{name}-{output}", **{"bootstrap.servers": servers, "state.dir": str(tmp_path)})
        app.stream(re.compile(f"{name}-.*")).to(output)
        Worker(app).close()
        assert said in caplog.text


def test_a_topic_that_comes_later_joins_the_tasks_of_all_workers(servers: str, name: str, tmp_path: Path) -> None:
    """One worker looks for topics, and the other one, which has all of its metadata for 5 minutes, learns of them from
    its assignment. A topic that was read may be deleted.
    """
    out = create(servers, f"{name}-out", 1)
    keys = [f"key-{number}" for number in range(8)]

    def fill_next(number: int) -> None:
        topic = create(servers, f"{name}-in-{number}", 2)
        fill(servers, topic, *((key, "x", number) for key in keys))

    def counted(number: int) -> bool:
        assert not errors
        return values(servers, out) == sorted((key, str(one)) for key in keys for one in range(1, number + 1))

    slow = app_of(servers, name, tmp_path / "slow")
    quick = app_of(servers, name, tmp_path / "quick", **{"metadata.max.age.ms": SOON_MS})
    with running(slow) as errors, running(quick):
        for number in (1, 2):
            fill_next(number)
            wait_for(lambda: counted(number), lambda: f"{number}: {values(servers, out)}", 60)  # noqa: B023
        delete(servers, f"{name}-in-1")
        fill_next(3)
        wait_for(lambda: counted(3), lambda: str(values(servers, out)), 60)
        assert {slow.counts.processed.total(), quick.counts.processed.total()} != {0, 24}  # both have worked


def test_what_a_pattern_cannot_read_stops_the_worker(servers: str, name: str, tmp_path: Path) -> None:
    """A new topic with other partitions, where there is state: keys would be in two tasks."""
    out = create(servers, f"{name}-out", 1)
    fill(servers, create(servers, f"{name}-in-1", 2), ("a", "x", 1))
    with Worker(app_of(servers, name, tmp_path, **{"metadata.max.age.ms": SOON_MS})) as worker:
        wait_for(lambda: not worker.step() and values(servers, out), "the first count")
        create(servers, f"{name}-in-2", 3)
        with pytest.raises(ConfigError, match=rf"equally many partitions, and {name}-in-1 has 2, {name}-in-2 has 3"):
            wait_for(lambda: worker.step(), "the error")


def test_a_topic_that_is_deleted_before_it_is_read_is_a_loss_once(servers: str, name: str, tmp_path: Path) -> None:
    """The worker stops, and says so. The next one goes on without the topic."""
    out = create(servers, f"{name}-out", 1)
    topic = create(servers, f"{name}-in-1", 1)
    fill(servers, create(servers, f"{name}-in-2", 1), ("b", "x", 1))
    fill(servers, topic, ("a", "x", 1))

    def app() -> App:
        return app_of(servers, name, tmp_path, **{"commit.interval.ms": 9_000, "max.poll.records": 1})

    with Worker(app()) as worker:
        wait_for(worker.step, "the first row")
        assert (topic, 0) not in {p for p, at in worker._session.committed.items() if at}
        delete(servers, topic)
        with pytest.raises(DataLoss, match=f"topic {topic} was deleted, and rows of it were not read yet"):
            wait_for(lambda: worker.step() and False, "the error")
    with Worker(app()) as worker:
        wait_for(lambda: not worker.step() and values(servers, out) == [("b", "1")], "the other topic")


def test_of_topics_that_are_deleted_at_once_each_is_looked_at(servers: str, name: str, tmp_path: Path) -> None:
    """One of them was read, and says first that it is gone. The row of the other one is not committed."""
    read, unread = (create(servers, f"{name}-in-{number}", 1) for number in (1, 2))
    create(servers, f"{name}-out", 1)
    fill(servers, read, ("a", "x", 1))
    with Worker(app_of(servers, name, tmp_path, **{"commit.interval.ms": 9_000})) as worker:
        wait_for(worker.step, "the first row")
        assert worker.commit()
        fill(servers, unread, ("b", "x", 2))
        wait_for(worker.step, "the second row")
        delete(servers, read)
        delete(servers, unread)
        with pytest.raises(DataLoss, match=f"topic {unread} was deleted, and rows of it were not read yet"):
            wait_for(lambda: worker.step() and False, "the error")


def test_a_commit_of_a_topic_that_is_deleted_says_that_its_rows_are_lost(
    servers: str, name: str, tmp_path: Path
) -> None:
    """The next start knows nothing of the topic, and goes on."""
    topic = create(servers, f"{name}-in-1", 1)
    create(servers, f"{name}-out", 1)
    fill(servers, topic, ("a", "x", 1))
    with Worker(app_of(servers, name, tmp_path, **{"commit.interval.ms": 9_000})) as worker:
        wait_for(worker.step, "the first row")
        delete(servers, topic)
        with pytest.raises(DataLoss, match=f"topic {topic} was deleted, and rows of it were not read yet"):
            worker.commit()


def test_an_end_that_others_have_read_beyond_is_not_known(servers: str, name: str) -> None:
    """A partition comes back from another member, and its topic is deleted before it answers: it may have rows."""
    topic = create(servers, name, 1)
    fill(servers, topic, ("a", "x", 1))
    known = LastKnown()
    with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
        id = id_text(client.topics({topic})[topic].id)

        def reader(start: int) -> SessionReader:
            ranges = [Range(topic, id, 0, start, NO_END)]
            return SessionReader(client, ranges, headers=False, order=RowOrder(lambda _: 9))

        first = reader(0)
        wait_for(lambda: first.next() is not None, "the row")
        known.take(first, {(topic, 0): 1})
        assert known.was_read(topic)
        known.take(reader(1), {(topic, 0): 1})  # nothing was read meanwhile
        assert known.was_read(topic)
        known.take(reader(2), {(topic, 0): 2})
        assert not known.was_read(topic)
        first.close()
