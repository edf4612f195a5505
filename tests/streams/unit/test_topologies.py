"""Topologies, sent through the driver: what they compute, and the names that Kafka Streams gives."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from semel.errors import ConfigError, SemelError, Unsupported
from semel.streams import App, Record, windows
from semel.streams.testing import Driver

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


def said(driver: Driver, topic: str) -> list[tuple[object, object, int]]:
    return [(one.key, one.value, one.timestamp) for one in driver.read(topic, key="bytes")]


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


def test_rows_without_a_value_are_not_joined() -> None:
    """What Kafka Streams 4.3.1 joins and drops of these rows; it counts 5 dropped ones, 3 and 2."""
    app = App("nulls")
    table = app.table("t", key="string", value="string")
    stream = app.stream("s", key="string", value="string")
    stream.join(table, lambda left, right: f"{left},{right}", value="string").to("inner")
    stream.left_join(table, lambda left, right: f"{left},{right}", value="string").to("left")
    driver = Driver(app)
    driver.pipe("t", "T", key="k", timestamp=0)
    driver.pipe_many("s", [("k", "v", 1), ("k", None, 2), (None, "v", 3), (None, None, 4), ("u", "v", 5)])
    assert said(driver, "inner") == [(b"k", "v,T", 1)]
    assert said(driver, "left") == [(b"k", "v,T", 1), (None, "v,None", 3), (b"u", "v,None", 5)]
    assert app.dropped_records == {"KSTREAM-JOIN-0000000004": 3, "KSTREAM-LEFTJOIN-0000000006": 2}


def test_a_topic_may_be_two_streams() -> None:
    """One source serves both, with the names of Kafka Streams."""
    app = App("twice")
    app.stream("s", value="string").map_values(lambda row: f"{row.value}1").to("o1")
    app.stream("s", value="string").map_values(lambda row: f"{row.value}2").to("o2")
    assert "--> KSTREAM-MAPVALUES-0000000001, KSTREAM-MAPVALUES-0000000004" in app.describe()
    driver = Driver(app)
    driver.pipe("s", "x")
    assert (said(driver, "o1"), said(driver, "o2")) == ([(None, '"x1"', 0)], [(None, '"x2"', 0)])


def test_rows_without_a_key_or_value_are_in_no_group(caplog: pytest.LogCaptureFixture) -> None:
    app = App("nulls")
    rows = app.stream("in", key="string", value="string")
    rows.group_by_key().count("counts")
    rows.group_by(lambda row: row.value).count("values")
    app.table("table", key="string", value="string")
    driver = Driver(app)
    driver.pipe_many("in", [(None, "x", 1), ("a", None, 2), ("a", "", 3)])
    driver.pipe_many("table", [(None, "x", 1), ("a", "x", 1), (None, "x", 1)])
    driver.pipe("in", "y")
    assert driver.store("counts") == {b"a": (1).to_bytes(8, "big")}
    assert app.dropped_records == {
        "KSTREAM-AGGREGATE-0000000001": 3,
        "KSTREAM-FILTER-0000000005": 1,
        "KTABLE-SOURCE-0000000009": 2,
    }
    assert (
        "KSTREAM-AGGREGATE-0000000001 dropped 1 rows without a key or value (3 so far in this process)" in caplog.text
    )


def test_late_rows_are_counted() -> None:
    app = App("late")
    app.stream("in", key="string").group_by_key().windowed(windows.tumbling(10)).count("counts")
    driver = Driver(app)
    driver.pipe_many("in", [("a", b"", 25), ("a", b"", 5), ("a", b"", 9), ("a", b"", 24)])
    assert app.dropped_records == {"KSTREAM-AGGREGATE-0000000001": 2}


def test_a_column_named_value_is_added_up_behind_a_new_key() -> None:
    app = App("value")
    rows = app.stream("in", key="string").map_batches(
        lambda batch: batch.set_column(1, "value", pa.array([1.5] * batch.num_rows))
    )
    rows.group_by("key").aggregate(total=("sum", "value")).to_stream().to("out")
    driver = Driver(app)
    driver.pipe_many("in", [("a", b"", 0), ("a", b"", 1)])
    assert said(driver, "out") == [(b"a", '{"total":3.0}', 1)]


TOP = 2**63 - 1


@pytest.mark.parametrize(
    ("rows", "refused"),
    [
        ([[TOP, 1]], True),
        ([[TOP], [1]], True),
        ([[-TOP], [-5]], True),
        ([[-TOP, -TOP, -TOP]], True),
        ([[TOP], [TOP], [5]], True),
        ([[TOP - 5], [5], [-TOP], [-TOP]], False),
        ([[2**62, 2**62 - 1]], False),
    ],
)
@pytest.mark.parametrize("rekeyed", [False, True])
def test_a_sum_that_leaves_64_bits_is_refused(rows: list[list[int]], refused: bool, rekeyed: bool) -> None:
    """Not even another key's sum of that batch is kept."""
    app = App("money")
    app.stream("in", key="string").to("copy")
    counted = app.stream("in", key="string").map_batches(
        lambda batch: pa.table(
            {"key": batch["key"].cast(pa.string()), "n": [int(value) for value in batch["value"].to_pylist()]}
        )
    )
    grouped = counted.group_by("key") if rekeyed else replace(counted, rekeyed=False).group_by_key()
    grouped.aggregate(name="sums", total=("sum", "n"))
    driver = Driver(app)

    def pipe() -> None:
        for batch in rows:
            driver.pipe_many("in", [("other", b"1", 0), *(("a", str(number).encode(), 0) for number in batch)])

    if not refused:
        return pipe()
    with pytest.raises(ConfigError, match=r"COLUMN_TYPE.*the sum 'total' of key a leaves 64 bits"):
        pipe()
    assert len(driver.store("sums")) == (0 if len(rows) == 1 else 2)
    assert [one.key for one in driver.read("copy")].count("other") == (0 if len(rows) == 1 else 1)
    return None


def test_a_float_of_one_key_leaves_the_whole_numbers_of_others() -> None:
    """Two names for one sum are two columns."""
    app = App("floats")
    numbers = app.stream("in", key="string", value="json").map_batches(
        lambda batch: pa.table({"key": batch["key"], "n": [json.loads(one) for one in batch["value"].to_pylist()]})
    )
    numbers.group_by("key").aggregate(name="sums", a=("sum", "n"), b=("sum", "n"), most=("max", "n")).to_stream().to(
        "out"
    )
    driver, large = Driver(app), 2**53 + 1
    for rows in ([("half", 0.5, 1)], [("large", large, 1)], [("half", 1, 2), ("large", 2, 2)]):
        driver.pipe_many("in", rows)
    driver.pipe_many("in", [("large", 0, 3)])
    found = [(one.key, json.loads(one.value)) for one in driver.read("out")]
    assert found[0] == ("half", {"a": 0.5, "b": 0.5, "most": 0.5})
    assert found[-1] == ("large", {"a": large + 2, "b": large + 2, "most": large})


def test_whole_numbers_above_64_bits_are_refused() -> None:
    app = App("unsigned")
    app.stream("in", key="string").map_batches(
        lambda batch: batch.append_column("n", pa.array([2**63 + 1], pa.uint64()))
    ).group_by("key").aggregate(name="sums", total=("sum", "n"))
    with pytest.raises(ConfigError, match="cannot write the record in-0 at offset 0 to unsigned-sums-repartition: Int"):
        Driver(app).pipe("in", b"", key="a")


def with_nan(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(1, "value", pa.array([float("nan")] * batch.num_rows))


def fail(_: object) -> object:
    raise ZeroDivisionError("by nought")


@pytest.mark.parametrize(
    ("build", "value", "text"),
    [
        (lambda s: s.map(fail), b"1", "in-0 at offset 0: ZeroDivisionError: by nought"),
        (lambda s: s.map_batches(fail), b"1", "in-0 at offsets 0 to 0: ZeroDivisionError"),
        (lambda s: s.map_batches(lambda batch: 7), b"1", "returned int"),
        (lambda s: s.map_batches(lambda batch: pa.table({"x": [1, 2]})), b"1", "no column timestamp"),
        (lambda s: s.group_by("word").count(), b"1", "groups by column 'word'"),
        (lambda s: s.map_values(lambda one: {1}), b"1", "returned what is not json for in-0 at offset 0"),
        (lambda s: s.map_values(lambda one: 1, value="string"), b"1", "returned what is not string"),
        (
            lambda s: s.map_batches(lambda b: b.drop_columns(["value"])).group_by("key").aggregate(x=("sum", "n")),
            b"1",
            "'n'",
        ),
        (lambda s: s.to("out", value="long"), b"abc", "cannot write the record in-0 at offset 0 to out"),
        (lambda s: s.map_values(lambda one: 1 << 70, value="long"), b"1", "KSTREAM-MAPVALUES-0000000001 returned what"),
        (lambda s: s.map_values(lambda one: float("nan")), b"1", "not json for in-0 at offset 0: Out of range float"),
        (
            lambda s: s.map(lambda one: (one.key, float("inf"))),
            b"1",
            "not json for in-0 at offset 0: Out of range float",
        ),
        (lambda s: s.map_batches(with_nan).to("out"), b"1", "cannot write the record in-0 at offset 0 to out: Out of"),
        (
            lambda s: s.map_batches(with_nan).group_by_key().aggregate(x=("sum", "value")).to_stream().to("out"),
            b"1",
            "cannot write the record with the key b'k' to out: Out of range float",
        ),
        (
            lambda s: s.group_by_key().aggregate(dict, lambda key, value, total: float("nan")),
            b"1",
            "not json for in-0 at offset 0: Out of range float",
        ),
        (lambda s: s.filter(pc.field("amount") > 10), b"1", "SEMEL_NO_COLUMN"),
        (lambda s: s.filter(pc.field("amount") > 10), b"1", "KSTREAM-FILTER-0000000001 needs a column"),
        (
            lambda s: s.branch(pc.field("value") > 10),
            b"1",
            "KSTREAM-BRANCH-0000000001 failed at in-0 at offsets 0 to 0",
        ),
        (
            lambda s: s.group_by_key().aggregate(dict, lambda key, value, total: {1}),
            b"1",
            "SEMEL_SERDE] the function of KSTREAM-AGGREGATE-0000000002 returned what is not json",
        ),
        (lambda s: s.group_by_key().aggregate(lambda: 1 / 0, max), b"1", "KSTREAM-AGGREGATE-0000000002 failed at in-0"),
    ],
)
def test_what_fails_names_the_record(build: object, value: bytes, text: str) -> None:
    app = App("failing")
    build(app.stream("in"))  # type: ignore[operator]
    driver = Driver(app)
    with pytest.raises(ConfigError, match="Nothing of this transaction is visible") as raised:
        driver.pipe("in", value, key="k")
    assert text in str(raised.value)


@pytest.mark.parametrize(("serde", "value"), [("string", b"\xff"), ("long", b"1")])
def test_bytes_that_do_not_fit_are_named(serde: str, value: bytes) -> None:
    app = App("damaged")
    app.stream("in", value=serde).to("out")
    with pytest.raises(ConfigError, match=f"the value of the record in-0 at offset 0 is no {serde}"):
        Driver(app).pipe("in", value)


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.map(user_of),
        lambda s: s.map_values(user_of),
        lambda s: s.filter(user_of),
        lambda s: s.group_by(user_of).count(),
        lambda s: s.group_by_key().reduce(lambda one, other: other),
        lambda s: s.map_batches(lambda batch: batch, key="string", value="json").map_values(user_of),
    ],
)
def test_a_value_that_is_no_json_is_named(build: Any) -> None:
    app = App("damaged")
    build(app.stream("in", key="string", value="json"))
    with pytest.raises(ConfigError) as raised:
        Driver(app).pipe_many("in", [("a", b"{}", 1), ("b", b"{", 2), ("c", b"[", 3)])
    assert "SEMEL_DESERIALIZATION] the value of the record in-0 at offset 1 is no json: Expecting" in str(raised.value)


def test_a_key_that_is_no_json_is_named() -> None:
    app = App("damaged")
    app.stream("in", key="json").map_values(user_of)
    with pytest.raises(ConfigError, match="the key of the record in-0 at offset 0 is no json"):
        Driver(app).pipe("in", b"1", key=b"{")


def test_what_does_not_fit_in_a_join_is_named() -> None:
    app = App("joins")
    users = app.table("users", key="string", value="json", name="users")
    clicks = app.stream("clicks", key="string", value="string")
    clicks.join(users, lambda click, user: 5, value="string")
    driver = Driver(app)
    driver.pipe_many("users", [("1", b"{}", 1), ("2", b"{", 1)])
    with pytest.raises(ConfigError, match=r"SEMEL_SERDE.*KSTREAM-JOIN-0000000003 returned what is not string"):
        driver.pipe("clicks", "home", key="1")
    with pytest.raises(ConfigError, match="the value in table users of the record clicks-0 at offset 2 is no json"):
        driver.pipe_many("clicks", [("3", "home", 1), ("2", "home", 2)])


def test_a_join_with_a_table_of_several_columns_is_for_batches() -> None:
    app = App("joins")
    sums = app.stream("orders", key="string", value="json").group_by_key().aggregate(name="sums", n=("sum", "n"))
    clicks = app.stream("clicks", key="string", value="string")
    with pytest.raises(ConfigError, match=r"NO_COLUMN.*KSTREAM-JOIN-0\d+ has.*'sums' has the columns n, and no value"):
        clicks.join(sums, lambda click, order: order["n"])
    clicks.left_join(sums).map_batches(lambda batch: batch.drop_columns(["value"]).rename_columns({"table_n": "value"}))


def test_rows_without_a_column_of_keys_are_in_no_repartition_topic() -> None:
    app = App("keyless")
    app.stream("in", value="json").map_batches(lambda batch: batch.drop_columns(["key"])).repartition().to("out")
    with pytest.raises(
        ConfigError, match=r"NO_COLUMN.*KSTREAM-FILTER-\d+ needs the column key, and the rows have value"
    ):
        Driver(app).pipe("in", 1, key="1")


def _pipe(driver: Driver) -> object:
    driver.pipe("b")
    return driver


def user_of(record: Record) -> object:
    return record.value


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda app: windows.session("1 s"), Unsupported, "session windows"),
        (lambda app: windows.sliding("1 s"), Unsupported, "sliding windows"),
        (lambda app: app.global_table("t"), Unsupported, "global tables"),
        (lambda app: app.stream("a").suppress(), Unsupported, "suppress"),
        (lambda app: app.stream("a").join(app.stream("b")), Unsupported, "two streams"),
        (lambda app: app.stream("a").join(app.stream("b"), max, "1 min"), Unsupported, "two streams"),
        (lambda app: app.stream("a").left_join(app.table("b"), max, "1 min"), Unsupported, "two streams"),
        (lambda app: app.stream("a").outer_join(app.stream("b"), max, value="json"), Unsupported, "two streams"),
        (lambda app: app.table("a").join(app.table("b")), Unsupported, "two tables"),
        (lambda app: app.table("a").join(app.table("b"), max, value="json"), Unsupported, "two tables"),
        (lambda app: app.table("a").left_join(app.table("b")), Unsupported, "two tables"),
        (lambda app: app.table("a").outer_join(app.table("b")), Unsupported, "two tables"),
        (lambda app: app.stream("a", value="avro"), Unsupported, "avro"),
        (lambda app: app.stream("a", value="xml"), ConfigError, "is no serialisation"),
        (lambda app: app.stream(""), ConfigError, "is no topic"),
        (lambda app: (app.stream("a"), app.table("a")), ConfigError, "is read twice"),
        (lambda app: (app.table("a"), app.stream("a")), ConfigError, "is read twice, and one of the two is a table"),
        (lambda app: (app.stream("a"), app.stream("a", key="string")), ConfigError, "has other serialisations"),
        (
            lambda app: (app.stream("a").repartition("x"), app.stream("b").repartition("x")),
            ConfigError,
            "are named 'x-repartition'",
        ),
        (lambda app: app.stream("a").to(lambda record: "b"), Unsupported, "chooses the topic: not there yet"),
        (lambda app: app.stream("a").to(""), ConfigError, "is no topic"),
        (lambda app: app.describe(), ConfigError, "reads nothing"),
        (lambda app: windows.tumbling("soon"), ConfigError, "is no duration"),
        (lambda app: windows.hopping("1 s", "2 s"), ConfigError, "cannot be"),
        (lambda app: app.stream("a").group_by_key().windowed("1 s"), ConfigError, "is no windows"),
        (lambda app: app.stream("a").group_by_key().aggregate(dict), ConfigError, "an initializer and an aggregator"),
        (lambda app: app.stream("a").group_by_key().aggregate(x=("mean", "n")), ConfigError, "is no aggregation"),
        (lambda app: app.stream("a").merge(app.stream("b", value="json")), ConfigError, "cannot be merged"),
        (
            lambda app: (app.stream("a").group_by_key().count("s"), app.stream("b").group_by_key().count("s")),
            ConfigError,
            "two stores are named",
        ),
        (lambda app: Driver(app), ConfigError, "reads nothing"),
        (
            lambda app: app.stream("a") and _pipe(Driver(app)),
            ConfigError,
            "does not read 'b'",
        ),
        (lambda app: (app.stream("a"), Driver(app).store("b")), ConfigError, "no store 'b'"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_built(build: object, error: type[SemelError], text: str) -> None:
    with pytest.raises(error, match=text):
        build(App("refused"))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"commit.interval.ms": 20_000}, ConfigError, "longer than transaction.timeout.ms"),
        ({"commit.interval.ms": "soon"}, ConfigError, "no number"),
        ({"num.standby.replicas": 1}, Unsupported, "num.standby.replicas"),
        ({"processing.guarantee": "at_least_once"}, Unsupported, "processing.guarantee"),
        ({"auto.offset.reset": "none"}, ConfigError, "neither earliest nor latest"),
        ({"isolation.level": "read_uncommitted"}, ConfigError, "would count rows of transactions that are aborted"),
        ({"commit.intervall.ms": 5}, ConfigError, "commit.intervall.ms"),
    ],
)
def test_settings_that_cannot_be(given: dict[str, object], error: type[SemelError], text: str) -> None:
    with pytest.raises(error, match=text):
        _ = App("settings", **{"bootstrap.servers": "localhost:1", **given}).settings
    with pytest.raises(ConfigError, match=r"application\.id"):
        App("one", **{"application.id": "other"})


def test_a_stop_that_comes_before_the_run_is_not_lost() -> None:
    """As from a signal that comes while modules are imported; there is no broker to be reached."""
    app = App("stopped", **{"bootstrap.servers": "localhost:1"})
    app.stream("in").to("out")
    app.stop()
    app.run()
    assert not app._stop.is_set()


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
