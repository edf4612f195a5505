"""What becomes of a record does not depend on the others of its poll."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.connect.api import SourceBatch, SourceRecord, TaskContext
from semel.connect.connectors.file import FileStreamSourceTask
from semel.connect.connectors.files import FilesSourceTask
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.tasks.rows import rows_of
from semel.errors import ConfigError
from tests.connect.unit.test_config import LINES, WORKER
from tests.connect.unit.test_kafka_answers import ASKED

JSON = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}
HOIST = {"transforms": "h", "transforms.h.type": "HoistField$Value", "transforms.h.field": "line"}
_PLAIN = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text("ab") | st.binary(max_size=2)
_VALUE = st.recursive(_PLAIN, lambda one: st.lists(one, max_size=3) | st.dictionaries(st.sampled_from("abc"), one))


def config(**more: str) -> ConnectorConfig:
    return ConnectorConfig.parse(LINES | JSON | more, WorkerConfig.parse(WORKER))


def written(values: list[Any], made: ConnectorConfig) -> list[Any]:
    rows = rows_of([SourceRecord("t", value, {"p": 1}, {"n": 1}) for value in values], made, 0)
    assert rows is not None
    return [value for _, table in rows.tables for value in table["value"].to_pylist()]


@settings(max_examples=100, deadline=None)
@given(st.lists(_VALUE, min_size=1, max_size=6))
def test_records_are_what_they_are_alone(values: list[Any]) -> None:
    made = config()
    assert written(values, made) == [one for value in values for one in written([value], made)]


def test_fields_and_types_of_others_are_not_taken_over() -> None:
    values = [
        {"a": 1},
        {"a": "x"},
        {"b": 2},
        {"a": 2.5},
        {"a": [1, "x", {"c": None}]},
        {"a": 3, "b": None},
        7,
        None,
        {},
    ]
    assert written(values, config()) == [
        *(b'{"a":1}', b'{"a":"x"}', b'{"b":2}', b'{"a":2.5}', b'{"a":[1,"x",{"c":null}]}', b'{"a":3,"b":null}'),
        *(b"7", None, b"{}"),
    ]


def test_numbers_are_written_exactly() -> None:
    values = [2**63, -(2**200), {"n": 2**64}, 2**63 - 1, Decimal("1.50"), Decimal("1.5"), 1.0, 1, float("nan")]
    assert written(values, config()) == [
        *(b"9223372036854775808", str(-(2**200)).encode(), b'{"n":18446744073709551616}', b"9223372036854775807"),
        *(b'"1.50"', b'"1.5"', b"1.0", b"1", b'"NaN"'),
    ]
    assert written([UUID(int=1), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)], config()) == [
        *(b'"00000000-0000-0000-0000-000000000001"', b"-1"),
    ]


def test_text_of_values_that_are_none() -> None:
    made = config(**{"value.converter": "StringConverter"})
    values = [1, "x", 2**70, 1e10, True, {"a": 1, "b": None, "c": [1, None]}, None]
    assert written(values, made) == [
        *(b"1", b"x", b"1180591620717411303424", b"1.0E10", b"true", b"{a=1, b=null, c=[1, null]}", None)
    ]
    assert written([[1, "x"], {1: 1.0}], made) == [b"[1, x]", b"{1=1.0}"]
    with pytest.raises(ConfigError, match="StringConverter writes text"):
        written([object()], made)


def test_their_order_stays_with_predicates_and_in_each_topic() -> None:
    more = {
        "transforms": "f",
        "transforms.f.type": "InsertField$Value",
        "transforms.f.static.field": "b",
        "transforms.f.static.value": "x",
        "transforms.f.predicate": "p",
        "transforms.f.negate": "true",
        "predicates": "p",
        "predicates.p.type": "HasHeaderKey",
        "predicates.p.name": "skip",
    }
    records = [
        SourceRecord("t", {"a": number if number % 3 else str(number)}, {"p": 1}, {"n": number}, headers=headers)
        for number, headers in enumerate([(), [("skip", b"")], (), (), [("skip", b"")]])
    ]
    rows = rows_of(records, config(**more), 0)
    assert rows is not None
    ((_, table),) = rows.tables
    assert table["value"].to_pylist() == [
        *(b'{"a":"0","b":"x"}', b'{"a":1}', b'{"a":2,"b":"x"}', b'{"a":"3","b":"x"}', b'{"a":4}'),
    ]
    assert [len(headers) for headers in table["headers"].to_pylist()] == [0, 1, 0, 0, 1]
    assert set(table.schema.names) == {"key", "value", "headers"}


def test_a_value_without_a_schema_gets_none() -> None:
    made = config(**{"value.converter.schemas.enable": "true"})
    assert written([[1, "x"], None, 1], made) == [
        *(b'{"schema":null,"payload":[1,"x"]}', None, b'{"schema":null,"payload":1}'),
    ]


LINE = ASKED["line"]["value"].encode()
HOISTED = (
    b'{"schema":{"type":"struct","fields":[{"type":"string","optional":false,"field":"line"}],"optional":false},'
    b'"payload":{"line":"foo"}}'
)


def _lines(folder: Path, data: bytes) -> SourceBatch:
    path = folder / "lines"
    path.write_bytes(data)
    task = FileStreamSourceTask()
    task.start({"file": str(path), "topic": "t", "batch.size": 10}, TaskContext(lambda _: None))
    polled = task.poll()
    task.stop()
    assert isinstance(polled, SourceBatch)
    return polled


@pytest.mark.parametrize(
    ("more", "value"),
    [
        ({}, b'"foo"'),
        ({"value.converter.schemas.enable": "true"}, LINE),
        (HOIST, b'{"line":"foo"}'),
        (HOIST | {"value.converter.schemas.enable": "true"}, HOISTED),
        ({"value.converter": "StringConverter"}, b"foo"),
        ({"value.converter": "ByteArrayConverter"}, b"foo"),
    ],
)
def test_lines_of_a_file_are_text(tmp_path: Path, more: dict[str, str], value: bytes) -> None:
    rows = rows_of(_lines(tmp_path, b"foo\n"), config(**more), 0)
    assert rows is not None
    ((topic, table),) = rows.tables
    assert (topic, table.to_pylist()) == ("t", [{"value": value}])
    assert ASKED["line"]["key"] is None


def test_lines_that_are_no_text(tmp_path: Path) -> None:
    batch = _lines(tmp_path, b"foo\n\xff\xfe\nbar\n")
    rows = rows_of(batch, config(**{"value.converter": "ByteArrayConverter"}), 0)
    assert rows is not None
    assert rows.tables[0][1]["value"].to_pylist() == [b"foo", b"\xff\xfe", b"bar"]
    for more in ({}, HOIST, {"value.converter": "StringConverter"}):
        with pytest.raises(ConfigError, match=r"offset .'position': 11.: a value is not text in UTF-8 \(b'.xff.xfe'\)"):
            rows_of(batch, config(**more), 0)
    tolerant = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    rows = rows_of(batch, config(**tolerant), 0)
    assert rows is not None
    found = [(topic, table["value"].to_pylist()) for topic, table in rows.tables]
    assert found == [("t", [b'"foo"']), ("t", [b'"bar"']), ("dead", [b"\xff\xfe"])]


def test_lines_of_json_that_are_no_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b'{"a":"\xff"}\n')
    task = FilesSourceTask()
    given = {"files": str(tmp_path / "*"), "topic": "t", "format": "json", "batch.size": 9}
    task.start({**given, "task": 0, "tasks": 1, "directory.poll.interval.ms": 0}, TaskContext(lambda _: None))
    polled = task.poll()
    task.stop()
    with pytest.raises(ConfigError, match="not text in UTF-8"):
        rows_of(polled, config(), 0)


def test_tables_of_arrow_keep_what_they_say_of_nulls() -> None:
    schema = pa.schema([pa.field("value", pa.int32(), nullable=False), pa.field("key", pa.list_(pa.time64("us")))])
    table = pa.table([pa.array([1], pa.int32()), pa.array([[3_600_000_000]], pa.list_(pa.time64("us")))], schema=schema)
    made = config(**{"value.converter.schemas.enable": "true", "key.converter": "JsonConverter"})
    rows = rows_of(SourceBatch("t", table, {"p": 1}, {"n": 1}), made, 0)
    assert rows is not None
    time = b'{"type":"int32","optional":true,"name":"org.apache.kafka.connect.data.Time","version":1}'
    key = b'{"schema":{"type":"array","items":%b,"optional":true},"payload":[3600000]}' % time
    value = b'{"schema":{"type":"int32","optional":false},"payload":1}'
    assert rows.tables[0][1].to_pylist() == [{"value": value, "key": key}]
