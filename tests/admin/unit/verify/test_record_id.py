"""Which id a record has: by Arrow where that can be, and by Python with the same result where not."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.admin.verify.record_id import IdPlace, _by_arrow, _by_python
from semel.errors import ConfigError


def ids(place: str, column: str, values: list[Any], kind: Any = None) -> list[bytes | None]:
    rows = pa.record_batch({column: pa.array(values, kind or pa.binary())})
    found = IdPlace.parse(place).of(rows).to_pylist()
    assert IdPlace.parse(place).of(rows.slice(1)).to_pylist() == found[1:]
    return list(found)


def test_the_key() -> None:
    assert ids("key", "key", [b"a", None, b""]) == [b"a", None, b""]


def test_a_header_the_last_one_of_its_name() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = [
        [("id", b"first"), ("other", b"x"), ("id", b"last")],
        [("other", b"x")],
        None,
        [("id", None)],
        [("id", b"")],
        [("id", b"alone")],
    ]
    assert ids("header:id", "headers", rows, kind) == [b"last", None, None, None, b"", b"alone"]
    assert ids("header:a:b", "headers", [[("a:b", b"x")]], kind) == [b"x"]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (
            [b'{"a":{"id":"x"}}', b' {"a":\n{"id":"\\u00e9"}} ', b"{}", b'{"a":null}', b'{"a":{}}'],
            [b"x", "é".encode(), None, None, None],
        ),
        ([b'{"a":{"id":7}}', b'{"a":{"id":-7}}'], [b"7", b"-7"]),
        ([b'{"a":{"id":7}}', b'{"a":{"id":"7"}}', b'{"a":{"id":1.50}}'], [b"7", b"7", b"1.50"]),
        ([b'{"a":{"id":18446744073709551616}}'], [b"18446744073709551616"]),
        ([b"no JSON", None, b"", b"[1]", b'"text"', b'{"a":{"id":NaN}}', b'{"a":{"id":"x"}}'], [None] * 6 + [b"x"]),
        ([b'{"a":{"id":true}}', b'{"a":{"id":[1]}}', b'{"a":{"id":{}}}', b'{"a":"id"}'], [None] * 4),
        ([b'{"a":{"id":1}}{"a":{"id":2}}', b"{}"], [None, None]),  # as many objects as values, but not one each
        ([b'{"a":{"id":1}}{"a":{"id":2}}', b""], [None, None]),
        ([b'{"a":{"id":"\xff"}}', b'{"a":{"id":"x"}}'], [None, b"x"]),
        ([b'{"a":{"id":"x","id":"y"}}'], [b"y"]),
    ],
)
def test_a_field_of_json(values: list[bytes | None], found: list[bytes | None]) -> None:
    assert ids("json:$.a.id", "value", values) == found


def test_an_index() -> None:
    assert ids(
        "json:$.a[1].id", "value", [b'{"a":[0,{"id":"x"}]}', b'{"a":[0]}', b'{"a":"text"}', b'{"a":{"1":0}}']
    ) == [b"x", None, None, None]
    assert ids("json:$[0]", "value", [b'["x"]', b'"x"']) == [b"x", None]


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["id", "b"]), st.text(max_size=5) | st.integers() | st.none() | st.lists(st.none())
        ),
        max_size=4,
    )
)
def test_arrow_finds_what_python_finds(rows: list[Any]) -> None:
    values = [json.dumps(row).encode() for row in rows]
    by_python = [_by_python(value, ("id",)) for value in values]
    for leaf in (pa.string(), pa.int64()):
        by_arrow = _by_arrow(pa.array(values, pa.binary()), ("id",), leaf)
        assert by_arrow is None or by_arrow.to_pylist() == by_python


def test_arrow_is_what_reads_where_it_can() -> None:
    found = _by_arrow(pa.array([b'{"id":"x","other":1}', b'{"id":"y","other":"z"}'], pa.binary()), ("id",), pa.string())
    assert found is not None


@pytest.mark.parametrize(
    "text",
    ["json:$..id", "json:$.a[*]", "json:id", "json:$", "json:$.a['b']", "json:$.a[-1]", "json:$.a[?(@.b)]", "json:"],
)
def test_what_is_no_plain_path_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no plain JSON path") as refused:
        IdPlace.parse(text)
    assert refused.value.tag == "ID_PATH"


@pytest.mark.parametrize("text", ["value", "header:", "headers:x", "", "$.id"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="json:") as refused:
        IdPlace.parse(text)
    assert refused.value.tag == "ID_PLACE"
