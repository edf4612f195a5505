"""Records that cannot be read, worked on or written: fail, go on, or a dead letter, as Kafka Streams' handlers do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import ConfigError, Unsupported
from semel.streams import App, Processor, Record, stores, windows
from semel.streams.dsl.stream import Stream
from semel.streams.testing import Driver

ERRORS = "org.apache.kafka.streams.errors."
LETTERS = {"errors.dead.letter.queue.topic.name": "letters"}
GO_ON = {
    "deserialization.exception.handler": f"{ERRORS}LogAndContinueExceptionHandler",
    "processing.exception.handler": f"{ERRORS}LogAndContinueProcessingExceptionHandler",
    "production.exception.handler": "continue",
    **LETTERS,
}


class Letters(Driver):
    """Keeps the dead letters with their headers."""

    def __init__(self, app: App) -> None:
        self.letters: list[dict[str, Any]] = []
        super().__init__(app)

    def _take(self, topic: str, records: Any) -> None:
        if topic == "letters":
            self.letters += records.to_pylist()
        super()._take(topic, records)

    def said(self, header: str) -> list[str]:
        """Return a header of each letter."""
        name = f"__streams.errors.{header}"
        return [one["value"].decode() for row in self.letters for one in row["headers"] if one["key"] == name]


def picky(value: int) -> int:
    if value % 3 == 0:
        raise ArithmeticError(f"{value} is a multiple of 3")
    return value


class Sum(Processor):
    """Adds up, and fails after it has written and forwarded some."""

    def process(self, record: Record) -> None:
        total = (self.context.store("sum").get(record.key) or 0) + record.value
        self.context.store("sum").put(record.key, total)
        self.context.forward(record.key, total)
        self.context.forward(record.key, picky(record.value))


def to_out(build: Callable[[Stream], Any]) -> Callable[[App], None]:
    return lambda app: build(app.stream("in", key="string", value="json")).to("out")


SHAPES: dict[str, Callable[[App], None]] = {
    "map_values": to_out(lambda one: one.map_values(lambda record: picky(record.value))),
    "filter": to_out(lambda one: one.filter(lambda record: picky(record.value))),
    "flat_map": to_out(lambda one: one.flat_map(lambda record: [(record.key, picky(record.value))] * 2)),
    "branch": to_out(lambda one: one.branch(lambda record: picky(record.value) > 5, lambda record: True)[1]),
    "batches": to_out(lambda one: one.map_batches(lambda rows: picky_batch(rows))),
    "key": to_out(lambda one: one.select_key(lambda record: str(picky(record.value))).repartition("keys")),
    "serde": to_out(lambda one: one.map_values(lambda record: record.value if record.value % 3 else {1, 2})),
    "reduce": to_out(lambda one: one.group_by_key().reduce(lambda a, b: a + picky(b), "sums").to_stream()),
    "windowed": to_out(
        lambda one: (
            one.group_by_key()
            .windowed(windows.tumbling(5))
            .aggregate(lambda: 0, lambda _, value, total: total + picky(value), name="sums")
            .to_stream()
        )
    ),
    "sessions": to_out(
        lambda one: (
            one.group_by_key()
            .windowed(windows.session(2))
            .aggregate(lambda: 0, lambda _, value, total: total + picky(value), merger=lambda _, a, b: a + b, name="s")
            .to_stream()
        )
    ),
    "table": to_out(lambda one: one.to_table("t").map_values(lambda record: picky(record.value)).to_stream()),
    "topic": lambda app: app.stream("in", key="string", value="json").to(
        lambda record: "out" if picky(record.value) else "other"
    ),
    "processor": to_out(lambda one: one.process(Sum, stores=[stores.key_value("sum")])),
}


def picky_batch(rows: pa.RecordBatch) -> pa.RecordBatch:
    for value in rows["value"].to_pylist():
        picky(json.loads(value))
    return rows


ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9)), min_size=1, max_size=20)


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=20, deadline=None)
@given(rows=ROWS, cuts=st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_whatever_the_batches_a_bad_record_costs_itself_alone(
    shape: str, rows: list[tuple[str, int]], cuts: list[int]
) -> None:
    """The answer is that of each record sent by itself; a letter has the bytes that were read."""
    answers = []
    for sizes in ([1], cuts):
        app = App("bad", **GO_ON, **{"statestore.cache.max.bytes": 0})
        SHAPES[shape](app)
        driver, at, turn = Letters(app), 0, 0
        while at < len(rows):
            size = sizes[turn % len(sizes)]
            driver.pipe_many("in", [(*row, number) for number, row in enumerate(rows[at : at + size], at)])
            at, turn = at + size, turn + 1
        kept = {name: driver.store(name) for name in driver._stores}
        letters = [(row["key"], row["value"], row["timestamp"]) for row in driver.letters]
        answers.append((driver.read("out", key="bytes"), kept, letters, sum(app.dropped_records.values())))
    assert answers[0] == answers[1]
    if shape not in ("reduce", "windowed", "sessions", "table", "key"):
        bad = [(key.encode(), str(value).encode()) for key, value in rows if value % 3 == 0]
        assert [letter[:2] for letter in answers[0][2]] == bad


def run(build: Callable[[App], None], properties: dict[str, str], rows: list[tuple[Any, Any, int]]) -> Letters:
    app = App("bad", **properties)
    build(app)
    driver = Letters(app)
    driver.pipe_many("in", rows)
    return driver


def test_a_letter_has_the_headers_of_kafka_streams() -> None:
    driver = run(SHAPES["map_values"], GO_ON, [("a", 1, 5), ("b", 3, 6), ("c", b"{", 7)])
    assert [one.value for one in driver.read("out")] == ["1"]
    assert [(one["key"], one["value"]) for one in driver.letters] == [(b"c", b"{"), (b"b", b"3")]
    assert [one["timestamp"].timestamp() for one in driver.letters] == [0.007, 0.006]
    assert driver.said("exception") == ["json.decoder.JSONDecodeError", "builtins.ArithmeticError"]
    assert driver.said("message")[1] == "3 is a multiple of 3"
    assert "in picky" in driver.said("stacktrace")[1]
    assert (driver.said("topic"), driver.said("partition")) == (["in", "in"], ["0", "0"])
    assert driver.said("offset") == ["2", "1"]
    names = [header["key"].removeprefix("__streams.errors.") for header in driver.letters[0]["headers"]]
    assert names == ["exception", "message", "stacktrace", "topic", "partition", "offset"]


def test_what_cannot_be_written() -> None:
    def build(app: App) -> None:
        app.stream("in", value="json").map_values(lambda record: record.value, value="string").to("out", value="long")

    rows = [(None, "7", 1), (None, "seven", 2)]
    with pytest.raises(ConfigError, match="cannot write the record"):
        run(build, {**GO_ON, "production.exception.handler": "fail"}, rows)
    driver = run(build, GO_ON, rows)
    assert [one.value for one in driver.read("out", value="long")] == [7]
    assert [one["value"] for one in driver.letters] == [b'"seven"']


@pytest.mark.parametrize(
    ("rows", "what"), [([("a", 3, 1)], "a multiple of 3"), ([("a", b"{", 1)], "is no json")], ids=["work", "read"]
)
def test_unless_it_is_asked_for_a_bad_record_stops_the_application(rows: list[Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        run(SHAPES["map_values"], LETTERS, rows)


def test_a_record_that_is_not_read_stops_it_where_only_functions_may_fail() -> None:
    properties = {"processing.exception.handler": "continue"}
    with pytest.raises(ConfigError, match="is no json"):
        run(SHAPES["map_values"], properties, [("a", b"{", 1)])


def test_without_a_topic_they_are_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    properties = {"processing.exception.handler": "CONTINUE", "default.deserialization.exception.handler": "continue"}
    app = App("bad", **properties)
    SHAPES["map_values"](app)
    driver = Letters(app)
    for value in (3, 6, b"{", 2):
        driver.pipe("in", value, key="a", timestamp=1)
    assert app.dropped_records == {"KSTREAM-MAPVALUES-0000000001": 2, "KSTREAM-SOURCE-0000000000": 1}
    assert driver.letters == []
    assert caplog.text.count("dropped 1 records at which it failed") == 1


def test_handlers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match="production"):
        App("bad", **{"production.exception.handler": f"{ERRORS}LogAndContinueExceptionHandler"})
    with pytest.raises(ConfigError, match="is empty"):
        App("bad", **{"errors.dead.letter.queue.topic.name": ""})
    with pytest.raises(ConfigError, match="would come again"):
        run(SHAPES["map_values"], {**GO_ON, "errors.dead.letter.queue.topic.name": "in"}, [])
    with pytest.raises(Unsupported, match="and put map_values"):
        run(to_out(lambda one: one.join(one, max, windows.join(5))), GO_ON, [])
