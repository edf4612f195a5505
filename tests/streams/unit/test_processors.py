"""Processors with stores of their own, sent through the driver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from semel.errors import ConfigError, SemelError
from semel.streams import App, Context, Processor, PunctuationType, Record, stores
from semel.streams.state.backend import DamagedStore
from semel.streams.testing import Driver


class Once(Processor):
    """Hands on each key's first record."""

    def process(self, record: Record) -> None:
        seen = self.context.store("seen")
        if seen.get(record.key) is None:
            seen.put(record.key, {"at": record.timestamp})
            self.context.forward(record.key, record.value)


def app_of(supplier: Callable[[], Processor], *given: stores.StoreBuilder, value: str = "string") -> App:
    app = App("processing")
    app.stream("in", key="string", value=value).process(supplier, stores=given, value="json").to("out")
    return app


def written(driver: Driver) -> list[tuple[Any, Any, int]]:
    return [(one.key, one.value, one.timestamp) for one in driver.read("out", value="json")]


def test_each_key_once() -> None:
    app = app_of(Once, stores.key_value("seen"))
    assert "Processor: KSTREAM-PROCESSOR-0000000001 (stores: [seen])" in app.describe()
    assert app.topology.internal_topics() == ["processing-seen-changelog"]
    driver = Driver(app)
    driver.pipe_many("in", [("a", "x", 1), ("b", "y", 2), ("a", "z", 3)])
    driver.pipe("in", "w", key="b", timestamp=4)
    assert written(driver) == [("a", "x", 1), ("b", "y", 2)]
    assert driver.store("seen") == {b"a": b'{"at":1}', b"b": b'{"at":2}'}


def test_what_a_store_of_keys_and_values_does() -> None:
    found: list[Any] = []

    class All(Processor):
        def process(self, record: Record) -> None:
            store = self.context.store("s")
            store.put(record.key, int(record.value))
            found.append((store.get(record.key), list(store.range("b", "c")), list(store.all())))
            if record.key == "c":
                found.append((store.delete("b"), list(store.all())))
                store.put("a", None)

    driver = Driver(app_of(All, stores.key_value("s", value="long")))
    driver.pipe_many("in", [("b", "2", 1), ("a", "1", 2)])
    driver.store("s")  # commits: what follows is merged with it
    driver.pipe_many("in", [("d", "4", 3), ("c", "3", 4)])
    assert found == [
        (2, [("b", 2)], [("b", 2)]),
        (1, [("b", 2)], [("a", 1), ("b", 2)]),
        (4, [("b", 2)], [("a", 1), ("b", 2), ("d", 4)]),
        (3, [("b", 2), ("c", 3)], [("a", 1), ("b", 2), ("c", 3), ("d", 4)]),
        (2, [("a", 1), ("c", 3), ("d", 4)]),
    ]
    assert driver.store("s") == {b"c": (3).to_bytes(8, "big"), b"d": (4).to_bytes(8, "big")}


def test_what_a_store_of_windows_does() -> None:
    found: list[Any] = []

    class Windows(Processor):
        def process(self, record: Record) -> None:
            store = self.context.store("w")
            begin = record.timestamp - record.timestamp % 10
            store.put(record.key, (store.fetch(record.key, begin) or 0) + 1, begin)
            found.append((store.fetch_range(record.key, 0, 1000), store.fetch_all(begin, begin)))

    driver = Driver(app_of(Windows, stores.window("w", retention=100)))
    driver.pipe_many("in", [("a", "", 1), ("a", "", 9), ("b", "", 9), ("a", "", 10)])
    assert found == [
        ([(0, 1)], [("a", 0, 1)]),
        ([(0, 2)], [("a", 0, 2)]),
        ([(0, 1)], [("a", 0, 2), ("b", 0, 1)]),
        ([(0, 2), (10, 1)], [("a", 10, 1)]),
    ]
    assert driver.store("w") == {(b"a", 0): b"2", (b"b", 0): b"1", (b"a", 10): b"1"}
    driver.pipe_many("in", [("c", "", 108), ("late", "", 5)])
    assert found[-1] == ([], [])  # older than the retention, though the transaction that overtook them is not committed
    store = driver._stores["w"]
    assert store.late == 1
    assert driver.store("w") == {(b"a", 10): b"1", (b"c", 100): b"1"}


def test_a_window_is_not_found_once_stream_time_has_overtaken_it() -> None:
    """As in Kafka Streams 4.3.1 one that is as old as the retention is not kept."""
    found: list[Any] = []

    class Looking(Processor):
        def process(self, record: Record) -> None:
            store = self.context.store("w")
            store.put(record.key, record.timestamp, record.timestamp)
            found.append((store.fetch("a", 0), store.fetch_range("a", 0, 5), [one[1] for one in store.fetch_all(0, 5)]))

    driver = Driver(app_of(Looking, stores.window("w", retention=100)))
    driver.pipe_many("in", [("a", "", 0), ("b", "", 99), ("b", "", 100), ("b", "", 5)])
    assert found == [(0, [(0, 0)], [0]), (0, [(0, 0)], [0]), (None, [], []), (None, [], [5])]
    assert driver.store("w").keys() == {(b"b", 5), (b"b", 99), (b"b", 100)}


def test_two_processors_share_a_store() -> None:
    shared = stores.key_value("shared", value="string")

    class Reading(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record.key, self.context.store("shared").get(record.key))

    class Writing(Processor):
        def process(self, record: Record) -> None:
            self.context.store("shared").put(record.key, record.value)

    app = App("sharing")
    app.stream("rates", key="string", value="string").process(Writing, stores=[shared])
    app.stream("in", key="string").process(Reading, stores=[shared]).to("out")
    assert len(app.topology.sub_topologies()) == 1
    driver = Driver(app)
    driver.pipe("rates", "7", key="eur")
    driver.pipe("in", "?", key="eur")
    assert [one.value for one in driver.read("out", value="json")] == ["7"]


def test_a_processor_with_stores_comes_after_another_one() -> None:
    """As in Kafka Streams: whether the first one changes the key is for its author to know. A group does not rely on
    it.
    """
    app = App("chain")
    first = app.stream("in", key="string", value="string").process(Once, stores=[stores.key_value("seen")])
    second = first.process(Counting, stores=[stores.key_value("counts")])
    second.to("out")
    second.group_by_key().count("grouped")
    assert len(app.topology.sub_topologies()) == 2
    driver = Driver(app)
    driver.pipe_many("in", [("a", "x", 1), ("b", "y", 2), ("a", "z", 3)])
    assert written(driver) == [("a", 1, 1), ("b", 1, 2)]
    assert second.merge(first).process(Counting, stores=[stores.key_value("merged")])


class Counting(Processor):
    """Counts the records of each key."""

    def process(self, record: Record) -> None:
        counts = self.context.store("counts")
        counts.put(record.key, (counts.get(record.key) or 0) + 1)
        self.context.forward(record.key, counts.get(record.key))


class Late(Processor):
    """Schedules its punctuator while it works on a record."""

    scheduled = False

    def process(self, record: Record) -> None:
        if record.value == "go" and not self.scheduled:
            self.scheduled = True
            self.context.schedule("10 ms", lambda time: self.context.forward("tick", time))
        self.context.forward(record.key, record.timestamp)


@pytest.mark.parametrize("size", [1, 2, 9])
def test_a_punctuator_that_is_scheduled_with_a_record(size: int) -> None:
    app = App("processing")
    stream = app.stream("in", key="string", value="string").filter(lambda record: record.key != "left out")
    stream.flat_map(lambda record: [("1", record.value), ("2", record.value)], value="string").process(Late).to("out")
    driver = Driver(app)
    rows = [("a", "no", 3), ("a", "go", 5), ("a", "", 12), ("left out", "", 25), ("a", "", 31)]
    for first in range(0, len(rows), size):
        driver.pipe_many("in", rows[first : first + size])
    assert [one.timestamp for one in driver.read("out", value="json") if one.key == "tick"] == [5, 12, 25, 31]
    whole = Driver(app)
    whole.pipe_many("in", rows)
    assert [(one[0], one[1]) for one in written(whole)] == [
        ("1", 3), ("2", 3), ("1", 5), ("2", 5), ("tick", 5), ("1", 12), ("2", 12), ("tick", 12), ("tick", 25),
        ("1", 31), ("2", 31), ("tick", 31),
    ]  # fmt: skip


def test_a_punctuator_by_stream_time() -> None:
    class Ticking(Processor):
        def init(self, context: Context) -> None:
            super().init(context)
            context.schedule("10 ms", lambda time: context.forward("tick", time))

        def process(self, record: Record) -> None:
            self.context.forward(record.key, record.value)

    driver = Driver(app_of(Ticking))
    driver.pipe_many("in", [("a", "x", 12), ("a", "y", 19), ("a", "late", 3), ("a", "z", 45), ("a", "v", 50)])
    ticks = [(value, time) for key, value, time in written(driver) if key == "tick"]
    assert ticks == [(12, 12), (45, 45), (50, 50)]


def test_a_processor_for_each_task_and_its_end() -> None:
    made: list[Processor] = []
    closed: list[Processor] = []

    class Own(Processor):
        def __init__(self) -> None:
            made.append(self)

        def process(self, record: Record) -> None: ...

        def close(self) -> None:
            closed.append(self)

    app = app_of(Own)
    one, other = Driver(app), Driver(app)
    one.pipe("in", "x", key="a")
    other.pipe("in", "x", key="a")
    one.pipe("in", "x", key="a")
    assert len(made) == 2
    one._tasks["in"].close()
    assert closed == made[:1]


class Wrong(Processor):
    def process(self, record: Record) -> None:
        if record.value == "divide":
            self.context.forward("a", 1 // 0)
        elif record.value == "interval":
            self.context.schedule(0, print, PunctuationType.WALL_CLOCK_TIME)
        elif record.value == "nan":
            self.context.store("s").put("a", float("nan"))
        elif record.value == "none":
            self.context.store("s").put(None, 1)
        else:
            self.context.store("other")


@pytest.mark.parametrize(
    ("value", "error", "said"),
    [
        ("divide", ConfigError, "KSTREAM-PROCESSOR-0000000001 failed at in-0 at offset 0: ZeroDivisionError"),
        ("interval", ConfigError, "schedules a function each 0 ms"),
        ("none", ConfigError, "the key is None"),
        ("nan", ConfigError, "failed at in-0 at offset 0: ValueError: Out of range float"),
        ("store", ConfigError, "has no store 'other': it was given s"),
    ],
)
def test_what_fails_in_a_processor(value: str, error: type[SemelError], said: str) -> None:
    with pytest.raises(error, match=said):
        Driver(app_of(Wrong, stores.key_value("s"))).pipe("in", value, key="a")


def test_a_store_that_is_damaged_is_no_mistake_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker throws the store away, and restores it."""

    def damaged(*_: object) -> None:
        raise DamagedStore(Path("folder"), "damaged")

    driver = Driver(app_of(Once, stores.key_value("seen")))
    monkeypatch.setattr(driver._stores["seen"], "get", damaged)
    with pytest.raises(DamagedStore):
        driver.pipe("in", "x", key="a")


def test_what_is_refused_of_a_processor() -> None:
    with pytest.raises(ConfigError, match="is no store"):
        app_of(Once, "seen")  # type: ignore[arg-type]
    changed = App("a").stream("in").select_key(lambda record: record.value)
    with pytest.raises(ConfigError, match=r"Put repartition\(\) before process"):
        changed.process(Once, stores=[stores.key_value("seen")])
    for_once = changed.process(Once)
    with pytest.raises(ConfigError, match=r"Put repartition\(\) before process"):
        for_once.process(Once, stores=[stores.key_value("seen")])
    twice = app_of(Once, stores.key_value("seen")).stream("other")
    with pytest.raises(ConfigError, match="two stores are named 'seen'"):
        twice.process(Once, stores=[stores.key_value("seen")])
