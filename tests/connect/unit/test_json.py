"""``JsonConverter``: the same JSON that Python reads back, and the schema of Kafka Connect."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.connect.converters import json_converter
from semel.errors import ConfigError

PLAIN, WITH_SCHEMA = ({"schemas.enable": word} for word in ("false", "true"))
_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
_DEEP = st.fixed_dictionaries({"x": st.none() | st.booleans(), "y": st.none() | st.floats(-1e9, 1e9)})
_ROW = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        'a "name"': st.none() | _TEXT,
        "list": st.none() | st.lists(st.none() | _TEXT),
        "deep": st.none()
        | st.fixed_dictionaries({"x": st.none() | st.booleans(), "y": st.none() | st.floats(-1e9, 1e9)}),
    }
)


def converted(column: Any, options: dict[str, str]) -> list[Any]:
    made = json_converter(options, "value.converter").column(column, pa.field("value", column.type), "t").to_pylist()
    return [None if text is None else json.loads(text) for text in made]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.none() | _ROW, min_size=1), st.integers(0, 3))
def test_rows_come_back(rows: list[Any], skipped: int) -> None:
    kind = pa.struct(
        {
            "id": pa.int64(),
            'a "name"': pa.string(),
            "list": pa.list_(pa.string()),
            "deep": pa.struct({"x": pa.bool_(), "y": pa.float64()}),
        }
    )
    column = pa.array(rows, kind)[skipped:]
    assert converted(column, PLAIN) == rows[skipped:]
    payloads = [row and row["payload"] for row in converted(column, WITH_SCHEMA)]
    assert payloads == rows[skipped:]


def test_schemas_are_kafkas() -> None:
    (shown,) = converted(pa.array([{"id": 1, "at": datetime(1970, 1, 1, 0, 0, 1)}]), {})
    assert shown == {
        "schema": {
            "type": "struct",
            "fields": [
                {"type": "int64", "optional": True, "field": "id"},
                {
                    "type": "int64",
                    "optional": True,
                    "name": "org.apache.kafka.connect.data.Timestamp",
                    "version": 1,
                    "field": "at",
                },
            ],
            "optional": True,
        },
        "payload": {"id": 1, "at": 1000},
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [("x", "x"), (1.5, 1.5), (True, True), (b"ab", "YWI="), ([1, None], [1, None])],
)
def test_values_of_one_kind(value: Any, shown: Any) -> None:
    assert converted(pa.array([value, None]), PLAIN) == [shown, None]


def test_all_control_characters() -> None:
    text = "".join(map(chr, range(0x20))) + '"\\/\u2028é😀'
    assert converted(pa.array([text]), PLAIN) == [text]


def test_what_json_does_not_have() -> None:
    with pytest.raises(ConfigError, match="does not write"):
        converted(pa.array([timedelta(1)]), PLAIN)
