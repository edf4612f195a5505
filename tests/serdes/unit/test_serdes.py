"""Serdes: what is read is what was written, in Kafka's forms, and what does not fit is refused."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.serdes.columns import is_text_or_bytes
from semel.serdes.json import write_json
from semel.serdes.numbers import NUMBERS
from semel.serdes.serde import decode, encode, from_python, to_python
from semel.serdes.text import write_bytes, write_text
from semel.serdes.unfit import MixedTypes, NotText, TooWide, Unfit, WrongType

FORMS = {"Long": ">q", "Integer": ">i", "Short": ">h", "Double": ">d", "Float": ">f", "Boolean": "?"}
VALUES: dict[str, Any] = {
    "Long": st.integers(-(2**63), 2**63 - 1),
    "Integer": st.integers(-(2**31), 2**31 - 1),
    "Short": st.integers(-(2**15), 2**15 - 1),
    "Double": st.floats(allow_nan=False),
    "Float": st.floats(width=32, allow_nan=False),
    "Boolean": st.booleans(),
}


@pytest.mark.parametrize("name", FORMS)
@given(data=st.data())
def test_numbers_are_as_kafka_writes_them(name: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[name], max_size=8))
    cut = data.draw(st.integers(0, len(values)))
    column = pa.array(values, NUMBERS[name].kind)[cut:]
    expected = [None if value is None else struct.pack(FORMS[name], value) for value in values[cut:]]
    assert NUMBERS[name].write(column).to_pylist() == expected
    assert NUMBERS[name].write_exact(pa.chunked_array([column, column])).to_pylist() == expected * 2
    if name != "Boolean":
        assert NUMBERS[name].read(pa.array(expected, pa.binary())).to_pylist() == values[cut:]


def test_booleans_are_read() -> None:
    column = NUMBERS["Boolean"].read(pa.array([b"\1", None, b"\0"], pa.binary()))
    assert column.type == pa.bool_()
    assert column.to_pylist() == [True, None, False]


@pytest.mark.parametrize(
    ("write", "column", "error"),
    [
        (NUMBERS["Integer"].write_exact, pa.array([2**31]), TooWide),
        (NUMBERS["Float"].write_exact, pa.array([0.1]), TooWide),
        (NUMBERS["Long"].write_exact, pa.array([1.0]), WrongType),
        (NUMBERS["Double"].write_exact, pa.array([1]), WrongType),
        (write_text, pa.array([b"a", b"\xff"]), NotText),
        (write_text, pa.array([{"a": b"x"}]), WrongType),
        (write_bytes, pa.array([1]), WrongType),
        (
            lambda column: write_json(column, pa.field("value", column.type), with_schema=True),
            pa.ExtensionArray.from_storage(pa.json_(), pa.array(['[1,"x"]'])),
            MixedTypes,
        ),
    ],
)
def test_what_does_not_fit_is_refused(write: Any, column: Any, error: type[Unfit]) -> None:
    with pytest.raises(error):
        write(column)


def test_a_number_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"8 bytes, and here are \[1, 8\]"):
        decode(pa.array([b"\1", bytes(8)], pa.binary()), "long")


@pytest.mark.parametrize(
    ("serde", "values", "raw"),
    [
        ("bytes", [b"\xff", None], [b"\xff", None]),
        ("string", ["é", None], ["é".encode(), None]),
        ("long", [-1, None], [b"\xff" * 8, None]),
        ("double", [1.0, None], [struct.pack(">d", 1.0), None]),
        ("json", [{"a": [1, 2.5]}, None], [b'{"a":[1,2.5]}', None]),
    ],
)
def test_a_serde_by_its_name(serde: str, values: list[Any], raw: list[bytes | None]) -> None:
    assert encode(from_python(values, serde), serde).to_pylist() == raw
    assert to_python(decode(pa.array(raw, pa.binary()), serde), serde) == values


def test_a_column_without_a_serde_is_written_by_its_type() -> None:
    columns = [pa.array([b"a"], pa.binary(1)), pa.array(["a"], pa.large_string()), pa.array([1]), pa.array([[1.5]])]
    assert [encode(column, None).to_pylist() for column in columns] == [[b"a"], [b"a"], [b"1"], [b"[1.5]"]]
    assert [is_text_or_bytes(column.type) for column in columns] == [False, True, False, False]
