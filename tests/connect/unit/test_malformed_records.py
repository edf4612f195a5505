"""Records that no converter writes: each is a sentence, or a dead letter beside the records that are fine."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pytest

from semel.connect.api import Schema, SourceRecord
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.tasks.rows import rows_of
from semel.errors import ConfigError
from semel.serdes.connect_offsets import encode_value
from tests.connect.unit.test_config import LINES, WORKER

DIGITS = 10**5_000


def _nested(depth: int, *, named: bool) -> Any:
    made: Any = None
    for _ in range(depth):
        made = {"a": made} if named else [made]
    return made


def _itself(made: Any) -> Any:
    if isinstance(made, list):
        made.append(made)
    else:
        made["a"] = made
    return made


#: A value, and its schema.
MALFORMED: dict[str, tuple[Any, Schema | None]] = {
    "5,000 digits as a key": ({DIGITS: 1}, None),
    "5,000 lists": (_nested(5_000, named=False), None),
    "5,000 dictionaries": (_nested(5_000, named=True), None),
    "a list that contains itself": (_itself([]), None),
    "a dictionary that contains itself": (_itself({}), None),
    "5,000 digits in int64": (DIGITS, Schema.int64()),
    "5,000 digits in float64": (DIGITS, Schema.float64()),
    "a list that contains itself, of texts": (_itself([]), Schema.array(Schema.string())),
}


def config(converter: str, **more: str) -> ConnectorConfig:
    options = {"value.converter": converter}
    if converter == "JsonConverter":
        options["value.converter.schemas.enable"] = "false"
    return ConnectorConfig.parse(LINES | options | more, WorkerConfig.parse(WORKER))


def record(value: Any, schema: Schema | None = None, topic: Any = "t") -> SourceRecord:
    return SourceRecord(topic, value, {"p": 1}, {"n": 1}, value_schema=schema)


@pytest.mark.parametrize("converter", ["JsonConverter", "StringConverter"])
@pytest.mark.parametrize("name", MALFORMED)
def test_what_cannot_be_written_is_a_sentence_or_a_dead_letter(name: str, converter: str) -> None:
    value, schema = MALFORMED[name]
    with pytest.raises(ConfigError, match="Nothing of this poll is visible"):
        rows_of([record("fine"), record(value, schema)], config(converter), 0)
    tolerant = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    more = tolerant | {"errors.deadletterqueue.context.headers.enable": "true"}
    rows = rows_of([record("fine"), record(value, schema), record("fine")], config(converter, **more), 0)
    assert rows is not None
    assert [(topic, table.num_rows) for topic, table in rows.tables] == [("t", 2), ("dead", 1)]
    assert rows.left_out == 1


def test_a_decimal_of_5000_digits_is_written() -> None:
    rows = rows_of([record(Decimal(DIGITS), Schema.decimal(0))], config("JsonConverter"), 0)
    assert rows is not None
    ((_, table),) = rows.tables
    assert int.from_bytes(base64.b64decode(json.loads(table["value"][0].as_py())), signed=True) == DIGITS


@pytest.mark.parametrize("topic", [None, "", 5])
def test_a_record_without_a_topic(topic: Any) -> None:
    with pytest.raises(ConfigError, match="without a topic"):
        rows_of([record("x", topic=topic)], config("StringConverter"), 0)
    more = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    rows = rows_of([record("x", topic=topic), record("fine")], config("StringConverter", **more), 0)
    assert rows is not None
    tables = dict(rows.tables)
    assert tables["t"]["value"].to_pylist() == [b"fine"]
    headers = {one["key"]: one["value"] for one in tables["dead"]["headers"].to_pylist()[0]}
    assert headers["__connect.errors.topic"] == (b"" if topic == "" else None if topic is None else b"5")


def test_an_offset_of_more_than_64_bits() -> None:
    assert encode_value("c", {"n": 2**63 - 1}) == b'{"n":9223372036854775807}'
    with pytest.raises(ConfigError, match="has more than 64 bits"):
        encode_value("c", {"n": 2**63})
