"""What a token endpoint answers."""

from __future__ import annotations

import pytest

from semel.errors import ConfigError
from semel.wire.oauth import read_answer


@pytest.mark.parametrize(
    ("answer", "life"),
    [
        (b'{"access_token":"a","expires_in":60}', 60.0),
        (b'{"access_token":"a","expires_in":"60"}', 60.0),
        (b'{"access_token":"a"}', 0.0),
    ],
)
def test_a_token_and_for_how_long(answer: bytes, life: float) -> None:
    assert read_answer(answer, "here") == ("a", life)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>",
        b"\xff",
        b"[]",
        b"[" * 100_000,
        b'{"expires_in":60}',
        b'{"access_token":"","expires_in":60}',
        b'{"access_token":7}',
        b'{"access_token":"a","expires_in":-1}',
        b'{"access_token":"a","expires_in":"nan"}',
        b'{"access_token":"a","expires_in":1' + b"0" * 400 + b"}",
        b'{"access_token":"a","expires_in":[]' + b" " * 10,
    ],
)
def test_what_is_no_token(answer: bytes) -> None:
    with pytest.raises(ConfigError, match="here"):
        read_answer(answer, "here")
