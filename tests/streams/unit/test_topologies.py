"""Topologies, sent through the driver: what they compute, and the names that Kafka Streams gives."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from semel.streams import App, windows
from semel.streams.testing import Driver
from tests.streams.support.topologies import said

#: What Kafka's documentation shows of its WordCount, with a map over batches in the place of flatMapValues.
WORD_COUNT = """Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [lines])
      --> KSTREAM-MAPBATCHES-0000000001
    Processor: KSTREAM-MAPBATCHES-0000000001 (stores: [])
      --> KSTREAM-KEY-SELECT-0000000002
      <-- KSTREAM-SOURCE-0000000000
    Processor: KSTREAM-KEY-SELECT-0000000002 (stores: [])
      --> KSTREAM-FILTER-0000000005
      <-- KSTREAM-MAPBATCHES-0000000001
    Processor: KSTREAM-FILTER-0000000005 (stores: [])
      --> KSTREAM-SINK-0000000004
      <-- KSTREAM-KEY-SELECT-0000000002
    Sink: KSTREAM-SINK-0000000004 (topic: counts-store-repartition)
      <-- KSTREAM-FILTER-0000000005

   Sub-topology: 1
    Source: KSTREAM-SOURCE-0000000006 (topics: [counts-store-repartition])
      --> KSTREAM-AGGREGATE-0000000003
    Processor: KSTREAM-AGGREGATE-0000000003 (stores: [counts-store])
      --> KTABLE-TOSTREAM-0000000007
      <-- KSTREAM-SOURCE-0000000006
    Processor: KTABLE-TOSTREAM-0000000007 (stores: [])
      --> KSTREAM-SINK-0000000008
      <-- KSTREAM-AGGREGATE-0000000003
    Sink: KSTREAM-SINK-0000000008 (topic: counts)
      <-- KTABLE-TOSTREAM-0000000007
"""


def split(batch: pa.RecordBatch) -> pa.Table:
    words = pc.split_pattern_regex(batch["value"].cast(pa.string()), r"\W+")
    parents = pc.list_parent_indices(words)
    return pa.table({"word": pc.list_flatten(words), "timestamp": batch["timestamp"].take(parents)})


def test_nodes_and_topics_have_kafka_streams_names() -> None:
    app = App("words")
    app.stream("lines").map_batches(split).group_by("word").count("counts-store").to_stream().to("counts")
    assert app.describe() == WORD_COUNT
    assert app.topology.internal_topics() == ["words-counts-store-changelog", "words-counts-store-repartition"]
    driver = Driver(app)
    driver.pipe("lines", "to be or not to be", timestamp=7)
    driver.advance(9)
    driver.pipe("lines", "be")
    assert said(driver, "counts") == [
        (b"to", "2", 7),
        (b"be", "2", 7),
        (b"or", "1", 7),
        (b"not", "1", 7),
        (b"be", "3", 9),
    ]
    assert driver.store("counts-store")[b"be"] == (3).to_bytes(8, "big")


def test_stores_without_a_name_are_numbered() -> None:
    app = App("numbered")
    app.stream("in", key="string", value="json").group_by_key().reduce(lambda before, now: before + now)
    app.table("users")
    names = [spec.name for part in app.topology.sub_topologies() for spec in part.stores]
    assert names == ["KSTREAM-REDUCE-STATE-STORE-0000000001", "users-STATE-STORE-0000000003"]


@pytest.mark.parametrize(("size", "advance", "grace"), [(10, 10, 0), (10, 10, 7), (10, 4, 5), (9, 1, 0)])
@pytest.mark.parametrize("seed", range(3))
def test_windows_are_those_of_a_record_at_a_time(size: int, advance: int, grace: int, seed: int) -> None:
    """Counts of random rows that come late, in batches of any size, against a loop over records."""
    chance = random.Random(seed)
    rows = [(chance.choice("abc"), max(0, at + chance.randint(-20, 5))) for at in range(200)]
    truth: dict[tuple[bytes, int], int] = defaultdict(int)
    now = -1
    for key, at in rows:
        now = max(now, at)
        for begin in range(at - at % advance, at - size, -advance):
            if begin >= 0 and begin + size + grace > now:
                truth[key.encode(), begin] += 1
    app = App("windowed")
    grouped = app.stream("in", key="string").group_by_key()
    grouped.windowed(windows.hopping(size, advance, grace=grace)).count("counts")
    driver = Driver(app)
    while rows:
        piece = chance.randint(1, 50)
        driver.pipe_many("in", [(key, b"x", at) for key, at in rows[:piece]])
        rows = rows[piece:]
    assert {key: int.from_bytes(value, "big") for key, value in driver.store("counts").items()} == truth


def test_a_backfill_keeps_the_windows_of_the_retention() -> None:
    """20 days of hourly windows in one batch, with a retention of a day."""
    app = App("backfill")
    grouped = app.stream("in", key="string").group_by_key()
    grouped.windowed(windows.tumbling("1 h")).count("counts").to_stream().to("out")
    driver = Driver(app)
    driver.pipe_many("in", [("a", b"", hour * 3_600_000 + 1) for hour in range(480)])
    assert len(driver.store("counts")) == 24
    assert len(driver.read("out", key="bytes")) == 480


def test_a_window_is_in_the_key_as_in_kafka_streams_and_in_columns() -> None:
    app = App("windowed")
    counts = app.stream("in", key="string").group_by_key().windowed(windows.tumbling("1 s")).count()
    counts.to_stream().to("raw")
    counts.to_stream().map_batches(lambda batch: batch.select(["key", "window_start", "value"])).filter(
        pc.field("value") > 1
    ).map_batches(lambda batch: batch.drop_columns(["window_start"])).to("plain")
    driver = Driver(app)
    driver.pipe_many("in", [("a", b"", 100), ("a", b"", 900), ("a", b"", 1000)])
    assert said(driver, "raw") == [
        (b"a" + (0).to_bytes(8, "big"), "2", 900),
        (b"a" + (1000).to_bytes(8, "big"), "1", 1000),
    ]
    assert said(driver, "plain") == [(b"a", "2", 900)]


@pytest.mark.parametrize("rekeyed", [False, True])
def test_columns_are_added_up_on_whole_batches(rekeyed: bool) -> None:
    """Numbers, nulls and floats, also behind a repartition topic that carries them."""
    app = App("sums")

    def numbers(batch: pa.RecordBatch) -> pa.Table:
        rows = [int(value) for value in batch["value"].to_pylist()]
        return pa.table(
            {
                "key": batch["key"].cast(pa.string()),
                "n": pa.array([row or None for row in rows], pa.int64()),
                "half": [row / 2 for row in rows],
            }
        )

    stream = app.stream("in").map_batches(numbers)
    grouped = stream.group_by("key") if rekeyed else replace(stream, key="string", rekeyed=False).group_by_key()
    sums = grouped.aggregate(
        name="sums", total=("sum", "n"), low=("min", "n"), top=("max", "half"), rows=("count", "n")
    )
    sums.to_stream().to("out")
    driver = Driver(app)
    driver.pipe_many("in", [("a", "3", 1), ("b", "0", 2), ("a", "5", 3)])
    driver.pipe_many("in", [("a", "-9", 2), ("b", "1", 9)])
    assert said(driver, "out") == [
        (b"a", '{"total":8,"low":3,"top":2.5,"rows":2}', 3),
        (b"b", '{"total":null,"low":null,"top":0.0,"rows":0}', 2),
        (b"a", '{"total":-1,"low":-9,"top":2.5,"rows":3}', 3),
        (b"b", '{"total":1,"low":1,"top":0.5,"rows":1}', 9),
    ]


def test_functions_of_single_records() -> None:
    app = App("records")
    orders = app.stream("orders", key="string", value="json")
    big, small = orders.branch(lambda one: one.value["n"] > 10, lambda one: one.value["n"] > 0)
    big.map(lambda one: (one.value["user"], one.value["n"] * 2)).to("doubled")
    small.flat_map(lambda one: [(one.key, one.value["n"])] * 2).to("twice")
    big.merge(small).filter_not(lambda one: one.key == "1").map_values(lambda one: one.offset, value="long").to(
        "offsets"
    )
    per_user = orders.group_by(lambda one: one.value["user"])
    per_user.aggregate(list, lambda _, value, found: [*found, value["n"]], name="lists").to_stream().to("lists")
    per_user.reduce(lambda one, other: max(one, other, key=lambda value: value["n"]), "most").to_stream().to("most")
    driver = Driver(app)
    for key, user, n in (("1", "ann", 3), ("2", "bob", 30), ("3", "ann", -1)):
        driver.pipe("orders", {"user": user, "n": n}, key=key)
    assert said(driver, "doubled") == [(b"bob", "60", 0)]
    assert said(driver, "twice") == [(b"1", "3", 0), (b"1", "3", 0)]
    assert [one.value for one in driver.read("offsets", value="long")] == [1]
    assert [value for _, value, _ in said(driver, "lists")] == ["[3]", "[30]", "[3,-1]"]
    assert driver.read("most", value="json")[-1].value == {"user": "ann", "n": 3}


def test_a_stream_is_joined_with_what_a_table_has_then() -> None:
    app = App("joins")
    users = app.table("users", key="string", value="json", name="users")
    clicks = app.stream("clicks", key="string", value="string")
    clicks.join(users, lambda click, user: f"{user['name']} {click}", value="string").to("inner")
    clicks.left_join(users, lambda click, user: user is not None).to("outer")
    clicks.join(users).map_batches(
        lambda batch: batch.select(["key", "table_value"]).rename_columns(["key", "value"])
    ).to("batches")
    driver = Driver(app)
    driver.pipe("clicks", "home", key="1")
    driver.pipe("users", {"name": "Ann"}, key="1")
    driver.pipe_many("clicks", [("1", "shop", 1), ("2", "shop", 2), (None, "shop", 3), ("1", "pay", 4)])
    driver.pipe("users", None, key="1")
    driver.pipe("clicks", "gone", key="1")
    assert said(driver, "inner") == [(b"1", "Ann shop", 1), (b"1", "Ann pay", 4)]
    assert [value for _, value, _ in said(driver, "outer")] == ["false", "true", "false", "false", "true", "false"]
    assert said(driver, "batches") == [(b"1", '{"name":"Ann"}', 1), (b"1", '{"name":"Ann"}', 4)]


def test_a_join_behind_a_new_key_goes_through_a_repartition_topic() -> None:
    app = App("rekeyed")
    users = app.table("users", key="string", value="string", name="users")
    app.stream("clicks", value="json").map(lambda one: (one.value["user"], one.value["page"])).join(
        users, lambda page, user: [user, page]
    ).to("out")
    assert [topic for topic in app.topology.internal_topics() if "repartition" in topic] == [
        "rekeyed-KSTREAM-MAP-0000000003-repartition"
    ]
    driver = Driver(app)
    driver.pipe("users", "Ann", key="1")
    driver.pipe("clicks", {"user": "1", "page": "home"})
    assert said(driver, "out") == [(b"1", '["Ann","home"]', 0)]


#: As Kafka Streams 4.3.1 describes it: the names of the second topic are taken, and it is not made.
TWO_JOINS = """   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000001 (topics: [t])
      --> KTABLE-SOURCE-0000000002
    Processor: KTABLE-SOURCE-0000000002 (stores: [t-STATE-STORE-0000000000])
      --> none
      <-- KSTREAM-SOURCE-0000000001
    Source: KSTREAM-SOURCE-0000000004 (topics: [u])
      --> KTABLE-SOURCE-0000000005
    Processor: KTABLE-SOURCE-0000000005 (stores: [u-STATE-STORE-0000000003])
      --> none
      <-- KSTREAM-SOURCE-0000000004
    Source: KSTREAM-SOURCE-0000000010 (topics: [KSTREAM-MAP-0000000007-repartition])
      --> KSTREAM-JOIN-0000000011, KSTREAM-LEFTJOIN-0000000016
    Processor: KSTREAM-JOIN-0000000011 (stores: [t-STATE-STORE-0000000000])
      --> KSTREAM-SINK-0000000012
      <-- KSTREAM-SOURCE-0000000010
    Sink: KSTREAM-SINK-0000000012 (topic: o1)
      <-- KSTREAM-JOIN-0000000011
    Processor: KSTREAM-LEFTJOIN-0000000016 (stores: [u-STATE-STORE-0000000003])
      --> KSTREAM-SINK-0000000017
      <-- KSTREAM-SOURCE-0000000010
    Sink: KSTREAM-SINK-0000000017 (topic: o2)
      <-- KSTREAM-LEFTJOIN-0000000016
"""


def test_two_joins_of_a_mapped_stream_use_one_repartition_topic() -> None:
    """The answers are those of Kafka Streams 4.3.1: a row without a key is dropped by the inner join alone."""
    app = App("two")
    one, other = app.table("t", key="string", value="string"), app.table("u", key="string", value="string")
    mapped = app.stream("s", key="string", value="string").map(lambda row: (row.value, row.key), value="string")
    mapped.join(one, lambda left, right: f"{left},{right}", value="string").to("o1")
    mapped.left_join(other, lambda left, right: f"{left},{right}", value="string").to("o2")
    mapped.group_by_key().count("counts").to_stream().to("o3")
    assert TWO_JOINS in app.describe()
    driver = Driver(app)
    driver.pipe("t", "T", key="k", timestamp=0)
    driver.pipe("s", "k", key="x", timestamp=1)
    driver.pipe("s", None, key="x", timestamp=2)
    assert said(driver, "o1") == [(b"k", "x,T", 1)]
    assert said(driver, "o2") == [(b"k", "x,None", 1), (None, "x,None", 2)]
    assert said(driver, "o3") == [(b"k", "1", 1)]


def test_a_topic_may_be_two_streams() -> None:
    """One source serves both, with the names of Kafka Streams."""
    app = App("twice")
    app.stream("s", value="string").map_values(lambda row: f"{row.value}1").to("o1")
    app.stream("s", value="string").map_values(lambda row: f"{row.value}2").to("o2")
    assert "--> KSTREAM-MAPVALUES-0000000001, KSTREAM-MAPVALUES-0000000004" in app.describe()
    driver = Driver(app)
    driver.pipe("s", "x")
    assert (said(driver, "o1"), said(driver, "o2")) == ([(None, '"x1"', 0)], [(None, '"x2"', 0)])


def test_a_column_named_value_is_added_up_behind_a_new_key() -> None:
    app = App("value")
    rows = app.stream("in", key="string").map_batches(
        lambda batch: batch.set_column(1, "value", pa.array([1.5] * batch.num_rows))
    )
    rows.group_by("key").aggregate(total=("sum", "value")).to_stream().to("out")
    driver = Driver(app)
    driver.pipe_many("in", [("a", b"", 0), ("a", b"", 1)])
    assert said(driver, "out") == [(b"a", '{"total":3.0}', 1)]


def test_what_stores_hold_is_said_in_the_words_that_are_kept_beside_them() -> None:
    """Another word here refuses the stores of every application that runs."""
    app = App("stores")
    grouped = app.stream("in", key="string", value="json").group_by_key()
    grouped.count("counts")
    grouped.windowed(windows.hopping(2_000, 1_000)).count("windows")
    grouped.aggregate(name="columns", total=("sum", "x"), most=("max", "y"))
    grouped.aggregate(dict, lambda key, value, made: made, name="made")
    app.stream("raw").group_by_key().count("raw")
    app.table("values", name="table", key="string", value="json")
    assert {spec.name: spec.holds for part in app.topology.sub_topologies() for spec in part.stores} == {
        "counts": "a count by key (string)",
        "windows": "a count by key (string) and window of 2000 ms each 1000 ms",
        "columns": "sum of x, max of y by key (string)",
        "made": "what a function made (json) by key (string)",
        "raw": "a count by key (bytes)",
        "table": "the newest value by key",
    }
