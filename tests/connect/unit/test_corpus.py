"""About 300 values through each converter and transformation, beside what Kafka Connect's own classes answered."""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.connect.api import SourceBatch, SourceRecord
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.tasks.records import write_record
from semel.connect.tasks.rows import rows_of
from semel.errors import ConfigError
from semel.serdes.schemas.arrow import _plain, arrow_field
from semel.serdes.schemas.json_form import parse_schema, parse_value
from semel.serdes.schemas.struct import checked
from tests.connect.oracle.corpus import CHAINS, HOW, PARTITION, TIMESTAMP
from tests.connect.unit.test_config import LINES, WORKER
from tests.connect.unit.test_kafka_answers import MORE

CORPUS = json.loads(lzma.decompress((Path(__file__).parents[1] / "oracle/corpus.json.xz").read_bytes()))
CONVERTERS = tuple(CORPUS[0]["answers"])
REFUSED = "refused"
Differences = list[tuple[Any, Any, Any]]


def record_of(asked: dict[str, Any]) -> SourceRecord:
    schema = parse_schema(asked["schema"])
    value = asked["payload"] if schema is None else parse_value(schema, asked["payload"])
    return SourceRecord(
        "t", value, {"p": 1}, {"n": 1}, value_schema=schema, kafka_partition=PARTITION, timestamp=TIMESTAMP
    )


def config(converter: str, chain: str | None = None) -> ConnectorConfig:
    kind, _, how = converter.partition(" ")
    options = {f"{part}.converter": kind for part in ("key", "value")}
    options |= {f"{part}.converter.{name}": one for part in ("key", "value") for name, one in HOW[how].items()}
    steps = [] if chain is None else CHAINS[chain]
    options["transforms"] = ",".join(str(number) for number in range(len(steps)))
    for number, step in enumerate(steps):
        options |= {f"transforms.{number}.{name}": value for name, value in step.items()}
    return ConnectorConfig.parse(LINES | options, WorkerConfig.parse(WORKER))


def comparable(asked: dict[str, Any], data: bytes | None) -> Any:
    """Java's maps have no order: only their JSON is compared without one."""
    if asked["schema"] is not None or data is None or not data.startswith(b"{"):
        return data
    try:
        return json.dumps(json.loads(data, parse_float=str), sort_keys=True)
    except ValueError:
        return data


def differences(answers: Callable[[dict[str, Any]], Any], ours: Callable[[dict[str, Any]], Any]) -> Differences:
    return [(asked["given"], answers(asked), made) for asked in CORPUS if answers(asked) != (made := ours(asked))]


def is_more(name: str, difference: tuple[Any, Any, Any]) -> bool:
    """What semel takes and Kafka Connect refuses: numbers of another width, text as bytes, tombstones, a masked decimal
    (Java's zero has no digits after the point), times of short numbers, of nulls or without a schema, a time as a whole
    that is cast, a name for what is no struct. Of bytes as text, Java shows the address; a number of 32 bits has more
    digits before Java 19 than it takes to read it back.
    """
    asked, answer, made = difference
    kind = name.partition(" ")[0].rpartition(".")[2]
    schema, payload = asked["schema"] or {}, asked["payload"]
    if kind == "StringConverter":
        return bool(schema) and "bytes" in json.dumps(schema) and b"[B@" in answer[2]
    if name == "whole to float32" and REFUSED not in (answer, made):
        return bool(np.float32(_payload(answer)) == np.float32(_payload(made)))
    if answer != REFUSED:
        return False
    if name == "named" or (name.startswith("whole to ") and schema.get("name", "").startswith("org.apache.kafka.")):
        return True
    if name in CHAINS and ("Decimal" in json.dumps(schema) or (name == "field to timestamp" and not schema)):
        return True
    if name == "whole to unix" and (payload is None or isinstance(payload, int)):
        return True
    if payload is None:
        return (name in CHAINS and not schema) or kind in MORE
    taken = MORE.get(kind, ())
    if schema:
        return schema["type"] in taken and schema.get("name", "shop.Thing") == "shop.Thing"
    return {str: "string", int: "int64", float: "double"}.get(type(payload), "") in taken


def _payload(answer: Any) -> Any:
    return json.loads(answer[2])["payload"]


def written(asked: dict[str, Any], made: ConnectorConfig) -> Any:
    try:
        row = write_record(record_of(asked["given"]), made)
    except ConfigError:
        return REFUSED
    assert row is not None
    headers = [[name, None if value is None else value.decode()] for name, value in row.headers]
    return row.topic, comparable(asked["given"], row.key), comparable(asked["given"], row.value), headers


@pytest.mark.parametrize("name", CONVERTERS, ids=lambda name: name.rpartition(".")[2])
def test_converters(name: str) -> None:
    def answer(asked: dict[str, Any]) -> Any:
        text = asked["answers"][name]
        if text is None or not text.startswith(REFUSED):
            return "t", None, comparable(asked["given"], None if text is None else base64.b64decode(text)), []
        return REFUSED

    made = config(name)
    different = differences(answer, lambda asked: written(asked, made))
    assert [one for one in different if not is_more(name, one)] == []


@pytest.mark.parametrize("name", CHAINS)
def test_transforms(name: str) -> None:
    def answer(asked: dict[str, Any]) -> Any:
        kafkas = asked["made"][name]
        if isinstance(kafkas, str):
            return REFUSED
        key, value = (kafkas[part] and kafkas[part].encode() for part in ("key", "value"))
        return (
            kafkas["topic"],
            comparable(asked["given"], key),
            comparable(asked["given"], value),
            kafkas.get("headers", []),
        )

    made = config(CONVERTERS[1], name)
    different = differences(answer, lambda asked: written(asked, made))
    assert [one for one in different if not is_more(name, one)] == []


def _as_arrow_guesses(records: list[SourceRecord]) -> list[bytes | None]:
    """Return what becomes of values without a schema that share the types and the fields of one column."""
    table = pa.table({"value": pa.array([record.value for record in records])})
    made = rows_of(SourceBatch("t", table, {"p": 1}, {"n": 1}), config(CONVERTERS[2]), 0)
    assert made is not None
    return [value for _, rows in made.tables for value in rows["value"].to_pylist()]


@pytest.mark.parametrize("payloads", [[{"a": 1}, {"b": 2}], [1, 1.0], [[1], [1, 1.0]], [{"a": 1}, {"a": 1.0}]], ids=str)
def test_the_harness_tells_a_guess_apart(payloads: list[Any]) -> None:
    """The control: types that Arrow infers from all records of a poll are not what Kafka Connect answers."""
    kept = {repr(one["given"]["payload"]): one for one in CORPUS if one["given"]["schema"] is None}
    asked = [kept[repr(payload)] for payload in payloads]
    answers = [base64.b64decode(one["answers"][CONVERTERS[2]]) for one in asked]
    records = [record_of(one["given"]) for one in asked]
    assert [row["value"] for row in _bytes_of([records], config(CONVERTERS[2]))] == answers
    assert _as_arrow_guesses(records) != answers


def _writable(record: SourceRecord, made: ConnectorConfig) -> bool:
    try:
        return write_record(record, made) is not None
    except ConfigError:
        return False


def _bytes_of(polls: list[list[SourceRecord]], made: ConnectorConfig) -> list[Any]:
    found = [rows_of(poll, made, 0) for poll in polls]
    tables = [table for rows in found if rows is not None for _, table in rows.tables]
    return [{"headers": [], **row} for table in tables for row in table.to_pylist()]  # a column of no header is none


PARTS = [(name, None) for name in CONVERTERS[:3]] + [(CONVERTERS[1], name) for name in CHAINS]


@cache
def _fit(number: int) -> tuple[ConnectorConfig, list[SourceRecord]]:
    made = config(*PARTS[number])
    return made, [record for record in map(record_of, (one["given"] for one in CORPUS)) if _writable(record, made)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(PARTS) - 1), st.lists(st.integers(0, 10_000), min_size=2, max_size=12), st.data())
def test_any_cut_into_polls_gives_the_same_bytes(number: int, chosen: list[int], data: st.DataObject) -> None:
    made, fit = _fit(number)
    records = [fit[one % len(fit)] for one in chosen]
    cut = data.draw(st.integers(1, len(records) - 1))
    assert _bytes_of([records], made) == _bytes_of([records[:cut], records[cut:]], made)
    assert _bytes_of([records], made) == _bytes_of([[record] for record in records], made)


def _batch(record: SourceRecord) -> SourceBatch:
    assert record.value_schema is not None
    field = arrow_field("value", record.value_schema)
    value = _plain(checked(record.value_schema, record.value))
    columns = [
        pa.array([value], field.type),
        pa.array([PARTITION], pa.int32()),
        pa.array([TIMESTAMP], pa.timestamp("ms")),
    ]
    schema = pa.schema([field, pa.field("partition", pa.int32()), pa.field("timestamp", pa.timestamp("ms"))])
    return SourceBatch("t", pa.table(columns, schema=schema), {"p": 1}, {"n": 1})


def _rows(polled: Any, made: ConnectorConfig) -> Any:
    try:
        rows = rows_of(polled, made, 0)
    except ConfigError:
        return REFUSED
    assert rows is not None
    return [
        (topic, row.get("key"), row["value"], row.get("headers", []))
        for topic, table in rows.tables
        for row in table.to_pylist()
    ]


@pytest.mark.parametrize(
    "number", range(len(PARTS)), ids=[f"{name.rpartition('.')[2]}-{chain}" for name, chain in PARTS]
)
def test_a_batch_is_what_its_records_are(number: int) -> None:
    """A table whose field was made of a schema. Beside: a null in a column is a tombstone."""
    made = config(*PARTS[number])
    records = [
        record_of(one["given"]) for one in CORPUS if one["given"]["schema"] and one["given"]["payload"] is not None
    ]
    different = [
        (record.value_schema, record.value, _rows([record], made), batch)
        for record in records
        if _rows([record], made) != (batch := _rows(_batch(record), made))
    ]
    assert different == []
