"""Values, converted and transformed, beside what Kafka Connect's own classes answered (``make oracle-connect``)."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semel.connect.converters import json_converter
from semel.connect.plugins import converter
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.connector_properties import ConnectorProperties
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.transforms import read_chain
from semel.errors import ConfigError
from semel.settings.providers import Providers
from tests.connect.oracle.corpus import HOW
from tests.connect.unit.test_config import LINES, WORKER

ASKED = json.loads((Path(__file__).parents[2] / "connect/oracle/answers.json").read_text())
_WHOLE, _FLOATING = ("int64", "int32", "int16", "int8"), ("double", "float")
#: What semel takes beside what Kafka Connect takes: bytes that are UTF-8 are text (Java prints their address), text is
#: bytes, and numbers have no width.
MORE: dict[str, tuple[str, ...]] = {
    "BooleanConverter": (),
    "StringConverter": ("bytes",),
    "ByteArrayConverter": ("string",),
    **dict.fromkeys(("LongConverter", "IntegerConverter", "ShortConverter"), _WHOLE),
    **dict.fromkeys(("DoubleConverter", "FloatConverter"), _FLOATING),
}
_KINDS = {
    "string": pa.string(),
    "int64": pa.int64(),
    "int32": pa.int32(),
    "int16": pa.int16(),
    "int8": pa.int8(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "float": pa.float32(),
    "bytes": pa.binary(),
    "org.apache.kafka.connect.data.Timestamp": pa.timestamp("ms"),
    "org.apache.kafka.connect.data.Date": pa.date32(),
    "org.apache.kafka.connect.data.Time": pa.time32("ms"),
}


def _field(schema: dict[str, Any], name: str) -> Any:
    if schema["type"] == "struct":
        kind = pa.struct([_field(one, one["field"]) for one in schema["fields"]])
    elif schema["type"] == "array":
        kind = pa.list_(_field(schema["items"], "item"))
    else:
        kind = _KINDS[schema.get("name", schema["type"])]
    return pa.field(name, kind, nullable=schema["optional"])


def _value(kind: Any, payload: Any) -> Any:
    if payload is None:
        return None
    if pa.types.is_struct(kind):
        return {one.name: _value(one.type, payload[one.name]) for one in kind}
    if pa.types.is_timestamp(kind):
        return datetime.fromtimestamp(payload / 1000, UTC).replace(tzinfo=None)
    if pa.types.is_date(kind):
        return date(1970, 1, 1) + timedelta(days=payload)
    if pa.types.is_time(kind):
        return (datetime.min + timedelta(milliseconds=payload)).time() if payload else time()
    if kind == pa.binary():
        return base64.b64decode(payload)
    return float(payload) if pa.types.is_floating(kind) else payload


def _table(given: dict[str, Any]) -> pa.Table:
    field = _field(given["schema"], "value")
    return pa.table([pa.array([_value(field.type, given["payload"])], field.type)], schema=pa.schema([field]))


def _named(asked: dict[str, Any]) -> str:
    return f"{asked['given']['schema']['type']}-{asked['given']['payload']}"[:30]


@pytest.mark.parametrize("asked", ASKED["values"], ids=_named)
@pytest.mark.parametrize("name", ASKED["converters"], ids=lambda name: name.rpartition(".")[2])
def test_converters(name: str, asked: dict[str, Any]) -> None:
    kind, _, how = name.partition(" ")
    answer, schema = asked["answers"][name], asked["given"]["schema"]["type"]
    convert = converter(kind, "value.converter", HOW[how])
    table = _table(asked["given"])
    refused, taken = (answer or "").startswith("refused"), schema in MORE.get(kind.rpartition(".")[2], ())
    if asked["given"]["payload"] is None:  # with JsonConverter too a null is a tombstone
        answer = None
    elif refused and not taken:
        with pytest.raises(ConfigError):
            convert.column(table.column(0), table.schema.field(0), "t")
        return
    elif refused or (taken and schema == "bytes"):
        return
    (made,) = convert.column(table.column(0), table.schema.field(0), "t").to_pylist()
    assert made == (None if answer is None else base64.b64decode(answer))


@pytest.mark.parametrize("asked", ASKED["transforms"], ids=lambda asked: json.dumps(asked["chain"])[:60])
def test_transforms(asked: dict[str, Any]) -> None:
    options = {"transforms": ",".join(str(number) for number in range(len(asked["chain"])))}
    for number, one in enumerate(asked["chain"]):
        options |= {f"transforms.{number}.{name}": value for name, value in one.items()}
    if isinstance(asked["answer"], str):
        with pytest.raises(ConfigError, match="Invalid replacement"):
            ConnectorConfig.parse(LINES | options, WorkerConfig.parse(WORKER))
        return
    properties = ConnectorProperties(options, Providers({}))
    chain = read_chain(properties)
    assert not properties.problems
    ((topic, table),) = chain.apply(asked["topic"], _table(asked["given"]))
    convert = json_converter({}, "value.converter")
    made: dict[str, Any] = {"topic": topic, "key": None}
    for name in table.schema.names:
        if name == "headers":
            made[name] = [[one["key"], one["value"] and one["value"].decode()] for one in table[name][0].as_py()]
        else:
            (made[name],) = convert.column(table.column(name), table.schema.field(name), made["topic"]).to_pylist()
    assert made == {
        name: text.encode() if text and name in ("key", "value") else text for name, text in asked["answer"].items()
    }
