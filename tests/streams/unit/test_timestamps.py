"""Timestamp extractors of sources, and names of nodes."""

from __future__ import annotations

from typing import Any

import pytest

from semel.errors import ConfigError
from semel.streams import App, Record, windows
from semel.streams.testing import Driver

PACKAGE = "org.apache.kafka.streams.processor."


def times(app: App, *rows: Any, start_ms: int = 0) -> list[int]:
    driver = Driver(app, start_ms=start_ms)
    driver.pipe_many("in", rows)
    return [one.timestamp for one in driver.read("out")]


def copying(extractor: Any = None, **properties: object) -> App:
    app = App("copy", **properties)
    app.stream("in", key="string", value="json", timestamp_extractor=extractor).to("out")
    return app


ROWS = [("a", 1, 5), ("b", 2, -1), ("c", 3, 3)]


def test_a_record_without_a_timestamp_stops_the_application() -> None:
    driver = Driver(copying())
    with pytest.raises(ConfigError, match="record in-0 at offset 1 has no timestamp") as raised:
        driver.pipe_many("in", ROWS)
    assert raised.value.tag == "NO_TIMESTAMP"
    assert driver.read("out") == []


@pytest.mark.parametrize("of_source", [False, True])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("LogAndSkipOnInvalidTimestamp", [5, 3]),
        ("UsePartitionTimeOnInvalidTimestamp", [5, 5, 3]),
        ("WallclockTimestampExtractor", [70, 70, 70]),
    ],
)
def test_kafka_streams_extractors(name: str, expected: list[int], of_source: bool) -> None:
    app = copying(name) if of_source else copying(**{"default.timestamp.extractor": PACKAGE + name})
    assert times(app, *ROWS, start_ms=70) == expected
    assert app.dropped_records == ({"KSTREAM-SOURCE-0000000000": 1} if len(expected) < 3 else {})


def test_a_partition_time_that_is_not_known_stops_the_application() -> None:
    with pytest.raises(ConfigError, match="at offset 0 has no timestamp"):
        times(copying("UsePartitionTimeOnInvalidTimestamp"), ("a", 1, -1))


def test_a_function_is_given_the_record_and_the_time_of_its_partition() -> None:
    seen: list[tuple[Any, int]] = []

    def extract(record: Record, partition_time: int) -> int:
        seen.append((record.value, partition_time))
        return int(record.value)

    app = copying(extract)
    assert times(app, ("a", 4, 1), ("b", -2, 1), ("c", 2, 1)) == [4, 2]
    assert seen == [(4, -1), (-2, 4), (2, 4)]
    assert app.dropped_records == {"KSTREAM-SOURCE-0000000000": 1}


@pytest.mark.parametrize(
    ("extractor", "said"),
    [
        (lambda record, _: record.value / 0, "failed at in-0 at offset 0: ZeroDivisionError"),
        (lambda record, _: "5", "returned '5' at in-0 at offset 0, and no number"),
    ],
)
def test_a_function_that_fails_names_the_record(extractor: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        times(copying(extractor), ("a", 1, 1))


def test_a_record_that_does_not_fit_is_left_out_before_its_time_matters() -> None:
    handlers = {"deserialization.exception.handler": "continue"}
    app = copying(lambda record, _: record.value, **handlers)
    assert times(app, ("a", 4, 1), ("b", b"!", 1), ("c", 6, 1)) == [4, 6]
    with pytest.raises(ConfigError, match="is no json"):
        times(copying(lambda record, _: record.value), ("b", b"!", 1))


@pytest.mark.parametrize("extractor", ["Other", 5])
def test_what_is_no_extractor_is_refused(extractor: Any) -> None:
    with pytest.raises(ConfigError, match="is no timestamp extractor"):
        copying(extractor)
    with pytest.raises(ConfigError, match="is no timestamp extractor"):
        App("copy", **{"default.timestamp.extractor": extractor})


def named(more: bool) -> App:
    """Return a topology with names, and with one word ``more`` before them."""
    app = App("named")
    stream = app.stream("in", key="string", value="json")
    if more:
        stream = stream.filter(lambda record: True)
    stream = stream.select_key(lambda record: record.key, named="key")
    stream.group_by_key("grouped").count("counts", named="count")
    other = stream.map(lambda record: (record.key, record.value), named="map")
    stream.join(other, lambda one, _: one, windows.join(5), name="met", named="meeting")
    table = app.table("users", key="string", value="json", name="users")
    stream.left_join(table, lambda one, _: one, named="user").to("out", named="written")
    return app


def test_names_stay_when_the_topology_changes() -> None:
    topics = ["counts-changelog", "grouped-repartition", "meeting-left-repartition", "meeting-right-repartition"]
    topics += ["met-other-join-store-changelog", "met-this-join-store-changelog", "user-repartition", "users-changelog"]
    for app in (named(False), named(True)):
        assert app.topology.internal_topics() == [f"named-{name}" for name in topics]
    names = {node.name for node in app.topology.nodes}
    meeting = {f"meeting-{name}" for name in ("this-windowed", "other-windowed", "this-join", "other-join", "merge")}
    assert names >= {"key", "count", "map", "user", "written", *meeting}


@pytest.mark.parametrize(("name", "said"), [("one", "two nodes are named 'one'"), ("a b", "is no name for a node")])
def test_names_that_cannot_be(name: str, said: str) -> None:
    stream = App("named").stream("in").filter(lambda record: True, named="one")
    with pytest.raises(ConfigError, match=said):
        stream.peek(print, named=name)
