"""Words of Kafka Streams that are shown best by an example."""

from __future__ import annotations

import pytest

from semel.errors import ConfigError
from semel.streams import App, Context, Processor, Record, Suppressed, stores, windows
from semel.streams.testing import Driver
from tests.streams.support.topologies import said


def test_a_join_without_a_function_gives_both_values_as_columns() -> None:
    app = App("pairs")
    views, clicks = (app.stream(name, key="string", value="string") for name in ("views", "clicks"))
    joined = views.outer_join(clicks, windows=windows.join(5), name="met")
    joined.map_values(lambda record: record.value, value="string").to("left")
    joined.map_batches(lambda rows: rows.drop_columns(["value"]).rename_columns({"other_value": "value"})).to("right")
    driver = Driver(app)
    driver.pipe("views", "v1", key="a", timestamp=1)
    driver.pipe("clicks", "c1", key="a", timestamp=3)
    driver.pipe("views", "v2", key="b", timestamp=4)
    driver.pipe("clicks", "c2", key="c", timestamp=20)
    assert said(driver, "left") == [(b"a", "v1", 3), (b"b", "v2", 4)]
    assert said(driver, "right") == [(b"a", "c1", 3), (b"b", None, 4)]
    names = [spec.name for spec in app.topology.sub_topologies()[0].stores]
    assert names == ["met-outer-other-join-store", "met-outer-shared-join-store", "met-outer-this-join-store"]


def test_a_record_has_its_window() -> None:
    app = App("windows")
    counts = app.stream("in", key="string").group_by_key().windowed(windows.session(5)).count("counts")
    counts.to_stream().map(lambda record: (record.key, [record.window_start, record.window_end])).to("out")
    driver = Driver(app)
    driver.pipe_many("in", [("a", "1", 1), ("a", "1", 4)])
    assert said(driver, "out")[-1] == (b"a", "[1,4]", 4)


def test_a_suppressed_session_is_handed_on_once() -> None:
    app = App("final")
    sessions = app.stream("in", key="string").group_by_key().windowed(windows.session(5)).count("counts")
    closed = sessions.suppress(Suppressed.until_window_closes(), name="final")
    closed.to_stream().to("out", value="json")
    driver = Driver(app)
    driver.pipe_many("in", [("a", "1", 1), ("a", "1", 4)])
    driver.pipe("in", "1", key="b", timestamp=9)
    assert said(driver, "out") == [(b"a" + (4).to_bytes(8, "big") + (1).to_bytes(8, "big"), "2", 4)]


def test_peek_and_foreach_see_each_record() -> None:
    seen: list[tuple[str, object]] = []
    app = App("seen")
    stream = app.stream("in", key="string", value="string")
    stream.peek(lambda record: seen.append(("peek", record.value))).to("out")
    stream.foreach(lambda record: seen.append(("foreach", record.key)))
    driver = Driver(app)
    driver.pipe("in", "v", key="k", timestamp=1)
    assert seen == [("peek", "v"), ("foreach", "k")]
    assert said(driver, "out") == [(b"k", "v", 1)]


def test_a_function_chooses_the_topic() -> None:
    app = App("chosen")
    app.stream(["a", "b"], key="string", value="string").to(lambda record: f"out-{record.key}")
    driver = Driver(app)
    driver.pipe("a", "1", key="x", timestamp=1)
    driver.pipe_many("b", [("y", "2", 2), ("x", "3", 3)])
    assert said(driver, "out-x") == [(b"x", "1", 1), (b"x", "3", 3)]
    assert said(driver, "out-y") == [(b"y", "2", 2)]
    assert "extractor class" in app.describe()


def test_a_topic_that_is_none_is_refused() -> None:
    app = App("chosen")
    app.stream("a", value="string").to(lambda record: "")
    with pytest.raises(ConfigError, match="that is no topic"):
        Driver(app).pipe("a", "1", timestamp=1)


class Twice(Processor):
    """Forwards on a schedule, and cancels it after the second call."""

    def init(self, context: Context) -> None:
        super().init(context)
        self.calls: list[int] = []
        self.scheduled = context.schedule(10, self.call)

    def call(self, now: int) -> None:
        self.calls.append(now)
        self.context.forward("tick", now)
        if len(self.calls) == 2:
            self.scheduled.cancel()

    def process(self, record: Record) -> None:
        """Do nothing with it."""


def test_a_scheduled_function_is_cancelled() -> None:
    app = App("ticks")
    app.stream("in", value="string").process(Twice).to("out")
    driver = Driver(app)
    driver.pipe_many("in", [(None, "1", at) for at in (1, 12, 25, 39, 50)])
    assert [one[1] for one in said(driver, "out")] == ["1", "12"]


class Wrong(Processor):
    """Forwards a key where keys are fixed."""

    def process(self, record: Record) -> None:
        """Forward another key."""
        self.context.forward("other", record.value)


def test_process_values_forwards_no_key() -> None:
    app = App("fixed")
    app.stream("in", key="string").process_values(Wrong, stores=[stores.key_value("own")]).to("out")
    with pytest.raises(ConfigError, match="forwards a key in process_values"):
        Driver(app).pipe("in", "1", key="a", timestamp=1)


def test_rows_without_a_key_go_through_a_repartition_to_a_left_join() -> None:
    app = App("relaxed")
    stream = app.stream("in", key="string", value="string").repartition("through")
    stream.left_join(app.table("table", key="string", value="string"), lambda left, right: left).to("out")
    driver = Driver(app)
    driver.pipe("in", "v", timestamp=1)
    assert said(driver, "out") == [(None, '"v"', 1)]


def test_a_stream_becomes_a_table_and_its_values_are_mapped() -> None:
    app = App("tables")
    users = app.stream("in", key="string", value="string").to_table("users")
    users.map_values(lambda record: record.value.upper(), value="string").to_stream().to("out")
    app.stream("clicks", key="string", value="string").join(users, max, value="string").to("joined")
    driver = Driver(app)
    driver.pipe("in", "ada", key="a", timestamp=1)
    driver.pipe("clicks", "x", key="a", timestamp=2)
    driver.pipe("in", None, key="a", timestamp=3)
    assert said(driver, "out") == [(b"a", "ADA", 1), (b"a", None, 3)]
    assert said(driver, "joined") == [(b"a", "x", 2)]
