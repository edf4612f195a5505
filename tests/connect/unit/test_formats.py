"""Bytes that Kafka's own Connect must read: keys and values of offsets, converted values, lines."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.connect.api import SourceBatch, SourceRecord
from semel.connect.connectors.file import split_lines
from semel.connect.converters import BYTES, STRING
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.tasks.rows import Rows, rows_of
from semel.errors import ConfigError
from semel.serdes.connect_offsets import (
    canonical,
    claim_key,
    encode_key,
    encode_value,
    parse_key,
    parse_value,
)
from tests.connect.unit.test_config import LINES, WORKER

CONFIG = ConnectorConfig.parse(LINES, WorkerConfig.parse(WORKER))


def test_offsets_are_written_as_kafka_connect_writes_them() -> None:
    assert encode_key("lines", {"filename": "/tmp/a b.txt"}) == b'["lines",{"filename":"/tmp/a b.txt"}]'
    assert encode_value("lines", {"position": 1288}) == b'{"position":1288}'
    assert encode_value("lines", None) is None
    # nothing is escaped but what Jackson escapes: control characters, in capitals, and what UTF-16 has as a pair
    text = '["ü",{"f":"é\\"\\\\/\\u001F\\n\\uD83D\\uDE00"}]'
    assert encode_key("ü", {"f": 'é"\\/\x1f\n\U0001f600'}) == text.encode()


def test_offsets_come_back() -> None:
    partition = {"table": "orders", "shard": 3, "half": None}
    assert parse_key(encode_key("sql", partition)) == ("sql", partition)
    assert parse_value(encode_value("sql", {"id": 9, "seen": True})) == {"id": 9, "seen": True}
    assert parse_value(None) is parse_value(b"null") is None
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1}) != canonical({"a": 1.0, "b": 2})


def test_what_is_no_offset() -> None:
    assert claim_key("lines") == b'["lines",{"semel":"claim"}]'
    for key in (claim_key("lines"), None, b"", b"{}", b"[1,2]", b'["a","b"]', b"\xff", b"[" * 100_000):
        assert parse_key(key) is None


@pytest.mark.parametrize(
    "nested", [{"a": {"b": 1}}, {"a": [1]}, {"a": float("nan")}, {1: "a"}, {"a": b"x"}, {"a": "\ud800"}, ["a"], "text"]
)
def test_what_cannot_be_kept_is_refused(nested: Any) -> None:
    with pytest.raises(ConfigError, match="connector 'lines' gave a source offset that cannot be kept"):
        encode_value("lines", nested)


@given(st.text("ab\r\n", max_size=40), st.integers(0, 40))
def test_lines_as_python_splits_them(text: str, cut: int) -> None:
    """Whatever is read in two goes is the same lines; what has no end yet waits."""
    found: list[str] = []
    position = 0
    for data in (text[:cut], text):
        lines, ends = split_lines(data[position:].encode())
        lines.validate(full=True)
        found += [line.decode() for line in lines.to_pylist()]
        assert len(lines) == len(ends)
        position += int(ends[-1]) if len(ends) else 0
    rest, whole = position, text[:position]
    assert found == whole.splitlines()
    assert text[rest:].rstrip("\r") == text[rest:].partition("\n")[0].partition("\r")[0]
    assert "\n" not in text[rest:]
    assert "\r" not in text[rest:-1]


def test_bytes_of_a_line_are_kept() -> None:
    lines, ends = split_lines(b"\xff\xfe\n\n\x00\r\nrest")
    assert lines.to_pylist() == [b"\xff\xfe", b"", b"\x00"]
    assert ends.tolist() == [3, 4, 7]


def test_text_and_bytes() -> None:
    text, raw = pa.array(["a", None, "é"]), pa.array([b"a", b"\xff"])
    key, value = pa.field("key", pa.string()), pa.field("value", pa.string())
    assert STRING.column(text, value, "t").to_pylist() == [b"a", None, "é".encode()]
    assert BYTES.column(raw, value, "t").to_pylist() == [b"a", b"\xff"]
    assert BYTES.column(text, value, "t").to_pylist() == [b"a", None, "é".encode()]
    assert STRING.column(pa.nulls(2), key, "t").type == pa.binary()
    with pytest.raises(ConfigError, match="not text in UTF-8"):
        STRING.column(raw, value, "t")
    with pytest.raises(ConfigError, match="a value is binary, and StringConverter writes text"):
        STRING.column(pa.array([{"raw": b"a"}]), value, "t")
    with pytest.raises(ConfigError, match="a key is int64, and ByteArrayConverter writes bytes"):
        BYTES.column(pa.array([1]), key, "t")


def record(value: Any, offset: int, topic: str = "t", **more: Any) -> SourceRecord:
    return SourceRecord(topic, value, {"p": "one"}, {"n": offset}, **more)


def test_records_become_tables_and_the_last_offset_counts() -> None:
    rows = rows_of([record("a", 1), record("b", 2, key="k"), record("c", 3, "u"), record("d", 4)], CONFIG, 0)
    assert rows is not None
    assert [(topic, table.to_pylist()) for topic, table in rows.tables] == [
        ("t", [{"key": None, "value": b"a"}, {"key": b"k", "value": b"b"}]),
        ("u", [{"key": None, "value": b"c"}]),
        ("t", [{"key": None, "value": b"d"}]),
    ]
    assert rows.offsets == {'{"p": "one"}': ({"p": "one"}, {"n": 4})}
    assert rows.count == 4


def test_nothing_is_nothing() -> None:
    empty = SourceBatch("t", pa.table({"value": pa.array([], pa.string())}), {"p": 1}, {"n": 1})
    given: list[Any] = [None, [], (), empty]
    assert [rows_of(polled, CONFIG, 0) for polled in given] == [None] * 4


@pytest.mark.parametrize(
    ("polled", "tag"),
    [
        ("text", "POLL_RESULT"),
        ([1], "POLL_RESULT"),
        (iter([]), "POLL_RESULT"),
        (SourceBatch("t", [b"x"], {"p": 1}, {"n": 1}), "POLL_RESULT"),
        (SourceBatch("t", pa.table({"key": ["a"]}), {"p": 1}, {"n": 1}), "POLL_RESULT"),
        ([record("a", 1), record({"a": b"x"}, 2)], "WRONG_TYPE"),
        ([record(object(), 2)], "WRONG_TYPE"),
        ([SourceRecord("", "a", {"p": 1}, {"n": 1})], "POLL_RESULT"),
        ([SourceRecord("t", "a", {"p": object()}, {"n": 1})], "OFFSET_FORM"),
    ],
)
def test_what_poll_may_not_return(polled: Any, tag: str) -> None:
    with pytest.raises(ConfigError) as refused:
        rows_of(polled, CONFIG, 0)
    assert refused.value.tag == tag
    assert isinstance(Rows([], {}).count, int)


ODD = pa.table({"value": pa.array([timedelta(1)])})


@pytest.mark.parametrize(
    ("polled", "more", "tag", "offset"),
    [
        (
            [record(b"a", 1), record(b"b", 2), record(b"\xff", 3), record(b"c", 4), record(b"\xff", 5)],
            {},
            "NOT_TEXT",
            3,
        ),
        ([record(b"a", 1), record(b"a", 2, "u"), record(b"\xff", 3, "u")], {}, "NOT_TEXT", 3),
        ([record({"a": b"x"}, 1), record(2, 2)], {}, "WRONG_TYPE", 1),
        ([record("a", 1), record("b", 2, headers=[("h", 1)])], {}, "WRONG_TYPE", 2),
        ([record("a", 1), record("b", 2, headers=[("h", "\ud800")])], {}, "WRONG_TYPE", 2),
        ([record(1.0, 1), record([1, object()], 2)], {"value.converter": "Json"}, "WRONG_TYPE", 2),
        (SourceBatch("t", ODD, {"p": "one"}, {"n": 9}), {"value.converter": "Json"}, "WRONG_TYPE", 9),
    ],
)
def test_what_cannot_be_converted_is_named_with_its_task_and_source(
    polled: Any, more: dict[str, str], tag: str, offset: int
) -> None:
    config = ConnectorConfig.parse(LINES | more, WorkerConfig.parse(WORKER))
    with pytest.raises(ConfigError) as refused:
        rows_of(polled, config, 7)
    assert refused.value.tag == tag
    where = f"task lines-7, source partition {{'p': 'one'}}, offset {{'n': {offset}}}: "
    assert refused.value.message.startswith(where)
    assert "Nothing of this poll is visible." in refused.value.message
