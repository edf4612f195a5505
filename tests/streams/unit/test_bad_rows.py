"""Rows that a topology cannot use: they are left out and counted, or refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from semel.errors import ConfigError, SemelError, Unsupported
from semel.streams import App, Record, Suppressed, windows
from semel.streams.testing import Driver
from tests.streams.support.topologies import said


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
    assert "KSTREAM-AGGREGATE-0000000001 dropped" in caplog.text


def test_late_rows_are_counted() -> None:
    app = App("late")
    app.stream("in", key="string").group_by_key().windowed(windows.tumbling(10)).count("counts")
    driver = Driver(app)
    driver.pipe_many("in", [("a", b"", 25), ("a", b"", 5), ("a", b"", 9), ("a", b"", 24)])
    assert app.dropped_records == {"KSTREAM-AGGREGATE-0000000001": 2}


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
        (lambda app: windows.session(0), ConfigError, "never ends"),
        (lambda app: windows.sliding(0), ConfigError, "hold single records"),
        (
            lambda app: app.stream("a").group_by_key().windowed(windows.session(1)).aggregate(int, max),
            ConfigError,
            "has no merger",
        ),
        (lambda app: app.stream("a").join(app.global_table("t"), max), ConfigError, "by a key_selector"),
        (
            lambda app: app.stream("a").group_by_key().count().suppress(Suppressed.until_window_closes()),
            ConfigError,
            "its table has none",
        ),
        (lambda app: app.stream("a").join(app.stream("b")), ConfigError, "with a table, or with a stream"),
        (lambda app: app.stream("a").join(app.stream("b"), max, "1 min"), ConfigError, "with a table, or"),
        (lambda app: app.stream("a").left_join(app.table("b"), max, windows.join(1)), ConfigError, "with a table, or"),
        (lambda app: app.stream("a").outer_join(app.stream("b"), max, value="json"), ConfigError, "with a table, or"),
        (lambda app: windows.join(1, before=-2), ConfigError, "ends before it begins"),
        (lambda app: app.table("a").join(app.stream("b"), max), ConfigError, "another table and a function"),
        (lambda app: app.table("a").outer_join(app.table("b"), "max"), ConfigError, "another table and a function"),
        (lambda app: app.stream("a", value="avro"), ConfigError, "semel.streams.avro"),
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
        (lambda app: app.stream([]), ConfigError, "list of topics is empty"),
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
        ({"commit.interval.ms": "soon"}, ConfigError, "is not a whole number of at least 1"),
        ({"num.standby.replicas": -1}, ConfigError, "num.standby.replicas"),
        ({"num.stream.threads": 0}, ConfigError, "num.stream.threads"),
        ({"processing.guarantee": "at_least_once"}, Unsupported, "processing.guarantee"),
        ({"auto.offset.reset": "none"}, ConfigError, "is not one of earliest, latest"),
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
