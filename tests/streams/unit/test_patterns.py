"""Streams of several topics and of patterns, in the test driver: which topics they read, and what is refused."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pyarrow as pa
import pytest

from semel.errors import ConfigError
from semel.streams import App, Processor, Record, stores, windows
from semel.streams.dsl.stream import Stream
from semel.streams.testing import Driver
from semel.streams.topology.mermaid import mermaid

ORDERS = re.compile("orders-.*")


def said(driver: Driver, topic: str) -> list[tuple[str | None, str | None]]:
    return [(row.key, row.value) for row in driver.read(topic)]


def test_a_pattern_reads_topics_as_they_come() -> None:
    """Topics of one pattern are one stream, with one table behind them."""
    app = App("pattern")
    app.stream(ORDERS, key="string", value="string").group_by_key().count("counts").to_stream().to("out")
    driver = Driver(app)
    driver.pipe("orders-eu", "x", key="a", timestamp=1)
    driver.pipe("orders-us", "y", key="a", timestamp=2)
    assert said(driver, "out") == [("a", "1"), ("a", "2")]
    for other in ("orders", "my-orders-eu", "out"):  # whole names fit, as in Kafka Streams
        with pytest.raises(ConfigError, match=f"does not read '{other}'"):
            driver.pipe(other, "x", key="a")


def test_the_pattern_is_in_the_description_as_in_kafka_streams() -> None:
    app = App("pattern")
    app.stream(ORDERS).to("out")
    assert "    Source: KSTREAM-SOURCE-0000000000 (topics: orders-.*)\n" in app.describe()
    assert '[("orders-.*")]' in mermaid(app.topology)


def test_two_streams_of_one_pattern_share_its_source() -> None:
    app = App("twice")
    app.stream(ORDERS, value="string").to("o1")
    app.stream(re.compile(ORDERS.pattern), value="string").to("o2")
    driver = Driver(app)
    driver.pipe("orders-eu", "x")
    assert (said(driver, "o1"), said(driver, "o2")) == ([(None, "x")], [(None, "x")])
    with pytest.raises(ConfigError, match=r"pattern 'orders-\.\*' is read twice, with other serialisations"):
        app.stream(ORDERS, value="json")


def test_topics_of_the_application_fit_no_pattern() -> None:
    app = App("own")
    everything = app.stream(re.compile(".*"), key="string", value="string")
    everything.group_by("value").count("counts").to_stream().to("out")
    internal = ["own-counts-changelog", "own-counts-repartition"]
    assert app.topology.internal_topics() == internal
    assert [topic for topic in ("other", "out", *internal) if app.topology.matches(topic)] == ["other", "out"]


OVERLAPS: list[tuple[Callable[[App], object], str]] = [
    (lambda app: (app.stream(ORDERS), app.stream("orders-eu")), "pattern 'orders-.\\*'"),
    (
        lambda app: (app.stream("orders-eu"), app.stream(ORDERS)),
        "'orders-eu' is read by its name, and by pattern",
    ),
    (lambda app: (app.table("orders-eu"), app.stream(ORDERS)), "'orders-eu' is read by its name"),
    (lambda app: (app.global_table("orders-eu"), app.stream(ORDERS)), "'orders-eu' is read by its name"),
    (lambda app: (app.stream(ORDERS), app.global_table("orders-eu")), "'orders-eu' is read by its name"),
    (lambda app: (app.stream(["a", "b"]), app.stream(["b", "c"])), r"topic 'b' is read by a stream of \['a', 'b'\]"),
    (lambda app: (app.stream("a"), app.stream(["a", "b"])), "topic 'a' is read by a stream"),
    (lambda app: app.stream([ORDERS, "rates"]), "a pattern is for stream"),  # type: ignore[list-item]
    (lambda app: app.table(ORDERS), "a pattern is for stream"),  # type: ignore[arg-type]
    (lambda app: app.stream(re.compile(b"orders")), "is no topic"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("build", "said"), OVERLAPS)
def test_two_sources_of_one_topic_are_refused(build: Callable[[App], object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build(App("overlap"))


def test_topics_that_fit_two_patterns_are_refused_when_they_are_there() -> None:
    app = App("overlap")
    app.stream(ORDERS).to("one")
    app.stream(re.compile(".*-eu")).to("other")
    driver = Driver(app)
    driver.pipe("orders-us", "x")
    with pytest.raises(ConfigError, match=r"'orders-eu' is read by pattern 'orders-\.\*', and by pattern '\.\*-eu'"):
        driver.pipe("orders-eu", "x")


def test_dead_letters_that_a_pattern_would_read_again_are_refused() -> None:
    app = App("letters", **{"errors.dead.letter.queue.topic.name": "orders-bad"})
    app.stream(ORDERS).to("out")
    with pytest.raises(ConfigError, match="a topic that the application reads"):
        Driver(app)


class Numbered(Processor):
    """Numbers the records of a task."""

    def process(self, record: Record) -> None:
        seen = self.context.store("seen")
        number = (seen.get("n") or 0) + 1
        seen.put("n", number)
        self.context.forward(record.key, f"{record.value} {number}")


def with_its_count(stream: Stream) -> None:
    """Join a stream with its own count, and let windows see the stream time of all keys."""
    joined = stream.join(stream.group_by_key().count("counts"), lambda one, number: f"{one}-{number}", value="string")
    kept = joined.group_by_key().windowed(windows.tumbling(2, grace=0)).reduce(lambda _, value: value, "kept")
    kept.to_stream().to("out")


SHAPES: dict[str, Callable[[App, object], None]] = {
    "copy": lambda app, source: app.stream(source, key="string", value="string").to("out"),  # type: ignore[arg-type]
    "window": lambda app, source: (
        app.stream(source, key="string", value="string")  # type: ignore[arg-type]
        .group_by_key()
        .windowed(windows.tumbling(10))
        .reduce(lambda one, other: f"{one}{other}"[-5:], "windows")
        .to_stream()
        .to("out")
    ),
    "itself": lambda app, source: with_its_count(app.stream(source, key="string", value="string")),  # type: ignore[arg-type]
    "processor": lambda app, source: (
        app.stream(source, key="string", value="string")  # type: ignore[arg-type]
        .process(Numbered, stores=[stores.key_value("seen")])
        .to("out")
    ),
    "table": lambda app, source: (
        app.stream(source, key="string", value="string")  # type: ignore[arg-type]
        .join(app.table("table", key="string", value="string"), lambda one, other: f"{one} {other}")
        .to("out")
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_topics_of_a_pattern_are_worked_on_as_one_list_of_topics(shape: str) -> None:
    """Batches of records of all topics, by time, give what single records give: of a pattern, and of a list."""
    draw = random.Random(shape)
    topics = ["t-1", "t-2", "t-3", *(["table"] if shape == "table" else [])]
    rows = [(draw.choice(topics), draw.choice("ab"), f"v{at}", at // 2) for at in range(200)]
    answers = []
    for source, together in ((re.compile("t-."), False), (re.compile("t-."), True), (["t-1", "t-2", "t-3"], False)):
        app = App("shapes", **{"statestore.cache.max.bytes": 0})
        SHAPES[shape](app, source)
        driver = Driver(app)
        if together:
            assert all(driver._reads(topic) for topic in topics)
            batches = [
                driver._with_origin(topic, driver._batch(topic, [(key, value, time)]))
                for topic, key, value, time in rows
            ]
            driver._all_tasks[0].process_by_time(pa.concat_batches(batches))
        else:
            for topic, key, value, timestamp in rows:
                driver.pipe(topic, value, key=key, timestamp=timestamp)
        answers.append(driver.read("out"))
    assert len(answers[0]) > 50
    assert answers[1] == answers[0]
    assert answers[2] == answers[0]
