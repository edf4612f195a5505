"""JSON that others wrote: one object, and nothing that would fail later, or with an error of Python's own."""

import pytest

from semel.strict_json import is_version, of_kind, read_object, write_object


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[]",
        "7",
        "null",
        '"a"',
        '{"a":NaN}',
        '{"a":-Infinity}',
        '{"a":1e999}',
        '{"a":' * 100_000,
        "[" * 100_000,
        b"\xff",
        '{"a":' + "9" * 5000 + "}",
    ],
    ids=lambda text: str(text[:20]),
)
def test_what_is_no_object_of_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the callers say what it means
        read_object(text)


def test_what_is_written_is_read() -> None:
    value = {"b": [1, None, True, 0.5], "a": {"ä": "\ud800"}}
    assert read_object(write_object(value)) == value
    assert write_object(value) == b'{"a":{"\\u00e4":"\\ud800"},"b":[1,null,true,0.5]}'


def test_kinds_are_exact() -> None:
    assert of_kind(int, 7) == 7
    for value in (True, 7.0, "7", None, [7]):
        with pytest.raises(TypeError, match="is no int"):
            of_kind(int, value)
    assert [is_version(found, 1) for found in (1, True, 1.0, "1", None)] == [True, False, False, False, False]


def test_an_error_does_not_repeat_pages_of_what_was_found() -> None:
    with pytest.raises(TypeError) as raised:
        of_kind(int, "x" * 100_000)
    assert len(str(raised.value)) < 300
