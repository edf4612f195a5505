"""Where brokers keep a group's offsets. The hashes are those of Java's ``String.hashCode``."""

import pytest

from semel.transaction.group_offsets import _java_hash


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("hello", 99_162_322),
        ("group-0-0", 1_484_206_715),
        ("polygenelubricants", 0),
        ("größe", 98_762_257),
        ("\U0001f980", 1_772_802),
    ],
)
def test_the_absolute_value_of_javas_hash(text: str, hashed: int) -> None:
    assert _java_hash(text) == hashed
