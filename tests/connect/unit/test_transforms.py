"""Transformations and predicates, as a connector is told them, on tables."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from semel.connect import Data, Record
from semel.connect.api import Schema, SourceBatch, SourceRecord
from semel.connect.settings.connector_config import ConnectorConfig, ConnectorConfigParser
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.tasks.rows import rows_of
from semel.errors import ConfigError
from tests.connect.unit.test_config import LINES, WORKER

KAFKA = "org.apache.kafka.connect.transforms."
ROWS = [{"id": 1, "name": "a", "at": 0}, None, {"id": 2, "name": None, "at": 86_400_123}]


def config(*transforms: dict[str, str], **more: str) -> ConnectorConfig:
    """A connector with these transformations, each under a number."""
    given = {
        **LINES,
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
        "transforms": ",".join(str(number) for number in range(len(transforms))),
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    for number, transform in enumerate(transforms):
        given |= {f"transforms.{number}.{name}": value for name, value in transform.items()}
    return ConnectorConfig.parse(given, WorkerConfig.parse(WORKER))


def changed(made: ConnectorConfig, values: list[Any] = ROWS, **columns: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    table = pa.table({"value": pa.array(values), **columns})
    return [(topic, rows.to_pylist()) for topic, rows in made.chain.apply("orders", table)]


def values(made: ConnectorConfig, given: list[Any] = ROWS, **columns: Any) -> list[Any]:
    ((_, rows),) = changed(made, given, **columns)
    return [row["value"] for row in rows]


def test_insert_field() -> None:
    made = config(
        {
            "type": f"{KAFKA}InsertField$Value",
            "topic.field": "topic",
            "timestamp.field": "when",
            "partition.field": "part",
            "static.field": "from",
            "static.value": "shop",
        }
    )
    when = pa.array([5, 6, 7], pa.timestamp("ms"))
    first, nothing, last = values(made, timestamp=when)
    assert nothing is None
    assert list(first) == ["id", "name", "at", "topic", "part", "when", "from"]
    assert (first["topic"], first["part"], first["from"]) == ("orders", None, "shop")
    assert last["when"] == datetime(1970, 1, 1, 0, 0, 0, 7_000)


def test_replace_mask_and_extract() -> None:
    replace = {"type": "ReplaceField$Value", "exclude": "at", "renames": "id:number"}
    assert values(config(replace)) == [{"number": 1, "name": "a"}, None, {"number": 2, "name": None}]
    assert values(config({"type": "ReplaceField$Value", "include": "id"})) == [{"id": 1}, None, {"id": 2}]
    mask = {"type": "MaskField$Value", "fields": "id,name"}
    assert values(config(mask))[0] == {"id": 0, "name": "", "at": 0}
    assert values(config({**mask, "fields": "name", "replacement": "***"}))[0]["name"] == "***"
    assert values(config(mask))[2]["name"] is None
    assert values(config({"type": "ExtractField$Value", "field": "id"})) == [1, None, 2]
    hoisted = config({"type": "HoistField$Value", "field": "line"})
    assert values(hoisted, ["x", "y"]) == [{"line": "x"}, {"line": "y"}]


@pytest.mark.parametrize(
    ("name", "written"),
    [("StringConverter", b"7"), ("LongConverter", bytes(7) + b"\7"), ("IntegerConverter", bytes(3) + b"\7")],
)
def test_a_number_as_the_key(name: str, written: bytes) -> None:
    made = config(
        {"type": "ValueToKey", "fields": "id"}, {"type": "ExtractField$Key", "field": "id"}, key_converter=name
    )
    rows = rows_of([_record({"id": 7, "text": "x"}, 0)], made, 0)
    assert rows is not None
    ((_, table),) = rows.tables
    assert table.select(["key", "value"]).to_pylist() == [{"key": written, "value": b'{"id":7,"text":"x"}'}]


def test_numbers_that_do_not_fit_are_refused() -> None:
    for name, value in (
        ("ShortConverter", 2**15),
        ("FloatConverter", 0.1),
        ("LongConverter", "7"),
        ("LongConverter", 1.0),
    ):
        made = config(value_converter=name, value_converter_schemas_enable="true")
        with pytest.raises(ConfigError, match="a value "):
            rows_of([_record(value, 0)], made, 0)


def test_fields_that_are_null_throughout_a_poll_stay_null() -> None:
    mask = config({"type": "MaskField$Value", "fields": "name,id", "replacement": "***"})
    assert values(mask, [{"id": None, "name": None, "at": 1}]) == [{"id": None, "name": None, "at": 1}]
    time = config({"type": "TimestampConverter$Value", "field": "at", "target.type": "Date"})
    assert values(time, [{"at": None}]) == [{"at": None}]
    key = config({"type": "ValueToKey", "fields": "id"})
    assert changed(key, [None, None])[0][1] == [{"value": None, "key": None}] * 2


def test_value_to_key_and_its_field() -> None:
    made = config({"type": "ValueToKey", "fields": "id"}, {"type": "ExtractField$Key", "field": "id"})
    ((_, rows),) = changed(made)
    assert [row["key"] for row in rows] == [1, None, 2]


@pytest.mark.parametrize(
    ("options", "first", "last"),
    [
        ({"target.type": "string", "format": "yyyy-MM-dd'T'HH:mm:ss"}, "1970-01-01T00:00:00", "1970-01-02T00:00:00"),
        (
            {"target.type": "string", "format": "dd.MM.yy HH:mm:ss.SSS"},
            "01.01.70 00:00:00.000",
            "02.01.70 00:00:00.123",
        ),
        ({"target.type": "Date"}, date(1970, 1, 1), date(1970, 1, 2)),
        ({"target.type": "Timestamp"}, datetime(1970, 1, 1), datetime(1970, 1, 2, 0, 0, 0, 123_000)),
        ({"target.type": "unix", "unix.precision": "milliseconds"}, 0, 86_400_123),
    ],
)
def test_timestamp_converter(options: dict[str, str], first: Any, last: Any) -> None:
    made = config({"type": f"{KAFKA}TimestampConverter$Value", "field": "at", **options})
    found = values(made)
    assert (found[0]["at"], found[2]["at"]) == (first, last)


def test_timestamps_from_text() -> None:
    made = config({"type": "TimestampConverter$Value", "target.type": "unix", "format": "yyyy-MM-dd HH:mm:ss"})
    when = datetime(2020, 2, 29, 12, 0, 1, tzinfo=UTC)
    assert values(made, [f"{when:%Y-%m-%d %H:%M:%S}", None]) == [int(when.timestamp() * 1000), None]


def test_routing_and_filters_by_predicates() -> None:
    route = {"type": "RegexRouter", "regex": "(or)(.*)", "replacement": "new-$2-$1"}
    assert changed(config(route))[0][0] == "new-ders-or"
    assert changed(config({**route, "regex": "(oth)(er)"}))[0][0] == "orders"
    tombstones = {
        "predicates": "gone",
        "predicates.gone.type": f"{KAFKA}predicates.RecordIsTombstone",
    }
    drop = {"type": f"{KAFKA}Filter", "predicate": "gone"}
    assert values(config(drop, **tombstones)) == [ROWS[0], ROWS[2]]
    assert values(config({**drop, "negate": "true"}, **tombstones)) == [None]
    elsewhere = config({**route, "predicate": "gone"}, **tombstones)
    assert [(topic, len(rows)) for topic, rows in changed(elsewhere)] == [("new-ders-or", 1), ("orders", 2)]
    extract = {"type": "MaskField$Value", "fields": "id", "predicate": "gone", "negate": "true"}
    assert [value and value["id"] for value in values(config(extract, **tombstones))] == [0, None, 0]
    here = {"predicates": "p", "predicates.p.type": "TopicNameMatches", "predicates.p.pattern": "ord.*"}
    assert changed(config({"type": "Filter", "predicate": "p"}, **here)) == []
    kind = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    headers = pa.array([[{"key": "h", "value": b"1"}], [], None], kind)
    by_header = {"predicates": "p", "predicates.p.type": "HasHeaderKey", "predicates.p.name": "h"}
    assert values(config({"type": "Filter", "predicate": "p"}, **by_header), headers=headers) == [None, ROWS[2]]


@pytest.mark.parametrize(
    ("transform", "setting", "text"),
    [
        ({"type": "Kast$Value"}, "type", "did you mean Cast?"),
        ({"type": "Cast$Value", "spec": "a:int128"}, "type", "has the type int128"),
        ({"type": "Cast$Value", "spec": "a:int8,int8"}, "type", "and more beside it"),
        ({"type": "HeaderFrom$Value", "fields": "a", "headers": "x,y", "operation": "move"}, "type", "as many as"),
        ({"type": "InsertHeader", "header": "h", "value.literal": "0.123456789"}, "type", "rounds to 0.12345679"),
        ({"type": "com.shop.Mask"}, "type", "a class of your own"),
        ({"type": "shop_nowhere.Mask"}, "type", "cannot be imported (ModuleNotFoundError"),
        ({"type": "json.JSONDecoder"}, "type", "is no subclass of semel.connect.Transform"),
        ({"type": "RegexRuoter"}, "type", "did you mean RegexRouter?"),
        ({"type": "RegexRouter", "replacement": "x"}, "regex", "Missing required configuration"),
        ({"type": "RegexRouter", "regex": "(", "replacement": "x"}, "type", "Invalid regex"),
        ({"type": "RegexRouter", "regex": "a", "replacement": "$1"}, "type", "has group 1, which regex has not"),
        ({"type": "RegexRouter", "regex": "a", "replacement": "b\\"}, "type", "with nothing after it"),
        ({"type": "MaskField", "fields": "a"}, "type", "needs $Key or $Value"),
        ({"type": "Filter"}, "type", "needs a predicate"),
        ({"type": "Filter", "predicate": "p"}, "predicate", "predicates does not name p"),
        ({"type": "ExtractField$Key", "field": "a", "feld": "b"}, "feld", "is not a known property"),
        ({"type": "TimestampConverter$Key", "target.type": "Time"}, "target.type", "String must be one of"),
        ({"type": "TimestampConverter$Key", "target.type": "string"}, "type", "requires format"),
        ({"type": "TimestampConverter$Key", "target.type": "string", "format": "EEE"}, "type", "has EEE"),
    ],
)
def test_what_is_wrong_is_told_at_its_setting(transform: dict[str, str], setting: str, text: str) -> None:
    given = LINES | {"transforms": "t"} | {f"transforms.t.{name}": value for name, value in transform.items()}
    problems = ConnectorConfigParser(given, WorkerConfig.parse(WORKER)).problems
    assert [problem.setting for problem in problems] == [f"transforms.t.{setting}"]
    assert text in problems[0].text


def _record(value: Any, number: int) -> SourceRecord:
    return SourceRecord("t", value, {"p": 1}, {"n": number})


def test_what_cannot_be_converted_stops_the_task_or_is_left_out() -> None:
    records = [_record("fine", 0), _record(b"\xff", 1), _record("also fine", 2), _record({"a": b"x"}, 3)]
    text = {"value.converter": "StringConverter", "transforms": ""}
    with pytest.raises(ConfigError, match="is not text in UTF-8"):
        rows_of(records, config(**text), 0)
    tolerant = config(
        **text,
        errors_tolerance="all",
        errors_deadletterqueue_topic_name="dead",
        errors_deadletterqueue_context_headers_enable="true",
    )
    rows = rows_of(records, tolerant, 0)
    assert rows is not None
    assert rows.left_out == 2
    found = [value for topic, table in rows.tables if topic == "t" for value in table["value"].to_pylist()]
    assert found == [b"fine", b"also fine"]
    ((_, dead),) = [one for one in rows.tables if one[0] == "dead"]
    assert dead["value"].to_pylist() == [b"\xff", b"{'a': b'x'}"]
    headers = {one["key"]: one["value"] for one in dead["headers"].to_pylist()[0]}
    assert headers["__connect.errors.topic"] == b"t"
    assert b"is not text in UTF-8" in headers["__connect.errors.exception.message"]
    assert rows.offsets == {'{"p": 1}': ({"p": 1}, {"n": 3})}


def _at_most_ten_bytes(topic: str, table: Any) -> ConfigError | None:
    longest = max((len(value) for value in table["value"].to_pylist() if value is not None), default=0)
    return ConfigError(f"{topic} takes no {longest} bytes", tag="RECORD_TOO_LARGE") if longest > 10 else None


def test_what_its_topic_would_not_take_is_left_out() -> None:
    records = [_record("fine", 0), _record("x" * 11, 1), _record("also fine", 2)]
    plain = {"value.converter": "StringConverter", "transforms": "", "errors_tolerance": "all"}
    skipped = rows_of(records, config(**plain), 0, _at_most_ten_bytes)
    assert skipped is not None
    assert (skipped.left_out, [topic for topic, _ in skipped.tables]) == (1, ["t", "t"])
    rows = rows_of(records, config(**plain, errors_deadletterqueue_topic_name="dead"), 0, _at_most_ten_bytes)
    assert rows is not None
    ((_, dead),) = [one for one in rows.tables if one[0] == "dead"]
    # the letter is too large for that topic too: its headers alone say what it was
    assert dead["value"].to_pylist() == [None]
    headers = {one["key"]: one["value"] for one in dead["headers"].to_pylist()[0]}
    assert headers["__connect.errors.exception.class.name"] == b"ConfigError.RECORD_TOO_LARGE"
    assert list(rows.offsets.values()) == [({"p": 1}, {"n": 2})]


def test_offsets_of_what_a_filter_left_out_count() -> None:
    made = config(
        {"type": "Filter", "predicate": "p"},
        predicates="p",
        **{"predicates.p.type": "TopicNameMatches", "predicates.p.pattern": "t"},
    )
    rows = rows_of([_record("x", 4)], made, 0)
    assert rows is not None
    assert not rows.tables
    assert list(rows.offsets.values()) == [({"p": 1}, {"n": 4})]


OWN = "tests.connect.support.own_transforms."
SHOUT = {"type": f"{OWN}Shout$Value", "field": "name"}


def _written(made: ConnectorConfig, polled: Any) -> list[Any]:
    rows = rows_of(polled, made, 0)
    return [] if rows is None else [(topic, row["value"]) for topic, some in rows.tables for row in some.to_pylist()]


@pytest.mark.parametrize("as_a_table", [False, True])
def test_a_class_of_ones_own(as_a_table: bool) -> None:
    """It sees each record by itself, of a table too."""
    big = {"predicates": "big", "predicates.big.type": f"{OWN}Above", "predicates.big.limit": "1"}
    made = config(SHOUT, {"type": "Filter", "predicate": "big"}, **big)
    given = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    polled: Any = SourceBatch("orders", pa.table({"value": given}), {"p": 1}, {"n": 1})
    if not as_a_table:
        schema = Schema.struct({"id": Schema.int64(), "name": Schema.string()})
        polled = [SourceRecord("orders", value, {"p": 1}, {"n": 1}, value_schema=schema) for value in given]
    assert _written(made, polled) == [("orders", b'{"id":1,"name":"A!"}')]


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_a_class_of_ones_own_that_raises(tolerance: str) -> None:
    made = config(SHOUT, **{"errors.tolerance": tolerance})
    records = [_record({"name": "a"}, 0), _record({"name": 7}, 1)]
    if tolerance == "all":
        assert _written(made, records) == [("t", b'{"name":"A!"}')]
        return
    with pytest.raises(ConfigError, match="Shout cannot change a record: it raised AttributeError"):
        _written(made, records)


INSERT = {"type": "InsertField$Value", "offset.field": "read_at", "topic.field": "of"}


def test_the_offset_of_a_sink_s_record_is_put_in() -> None:
    """Kafka refuses it for sources too, record by record."""
    chain = config(INSERT).chain
    table = pa.table({"value": pa.array([{"a": 1}, {"a": 2}]), "offset": pa.array([7, 9])})
    ((_, made),) = chain.apply("orders", table)
    assert [(row["of"], row["read_at"]) for row in made["value"].to_pylist()] == [("orders", 7), ("orders", 9)]
    record = Record("orders", Data(None, None), Data(None, {"a": 1}), 0, None, (), 7)
    changed_record = chain.change(record)
    assert changed_record is not None
    assert changed_record.value.value == {"a": 1, "of": "orders", "read_at": 7}
    with pytest.raises(ConfigError, match=r"offset\.field is for sinks"):
        rows_of([_record({"a": 1}, 0)], config(INSERT), 0)


@pytest.mark.parametrize(
    "transform",
    [
        {"type": "ReplaceField$Value", "renames": "id:name"},
        {"type": "ReplaceField$Value", "renames": "id:x,name:x"},
        {"type": "InsertField$Value", "topic.field": "name"},
        {"type": "Flatten$Value"},
    ],
)
def test_a_schema_has_no_field_twice(transform: dict[str, str]) -> None:
    """The last one would be all that is left of both. Without a schema it is, as in Kafka."""
    inner = Schema.struct({"b": Schema.int32()})
    schema = Schema.struct({"id": Schema.int32(), "name": Schema.string(), "a": inner, "a.b": Schema.int32()})
    value = {"id": 1, "name": "n", "a": {"b": 2}, "a.b": 3}
    with pytest.raises(ConfigError, match=r"would have the field .* twice"):
        _written(config(transform), [SourceRecord("t", value, {"p": 1}, {"n": 1}, value_schema=schema)])
    assert len(_written(config(transform), [_record(value, 0)])) == 1


def test_a_field_may_become_two_headers() -> None:
    made = config({"type": "HeaderFrom$Value", "fields": "id,id", "headers": "x,y", "operation": "move"})
    rows = rows_of([_record({"id": 1, "n": 2}, 0)], made, 0)
    assert rows is not None
    ((_, table),) = rows.tables
    assert table["headers"].to_pylist() == [[{"key": "x", "value": b"1"}, {"key": "y", "value": b"1"}]]
    assert table["value"].to_pylist() == [b'{"n":2}']
