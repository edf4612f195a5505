"""Dataclasses whose fields are settings."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from semel.errors import ConfigError
from semel.settings import Setting
from semel.settings.fields import read_fields, setting, table_of


@dataclass(frozen=True, slots=True, kw_only=True)
class _Some:
    made: str
    max_poll_records: int = setting(int, 500, 1)
    topic: str = setting(str, name="offset.storage.topic")
    lines: list[str] = setting(list, ())


def test_the_class_is_the_table() -> None:
    assert table_of(_Some) == {
        "max.poll.records": Setting(int, 500, 1),
        "offset.storage.topic": Setting(str),
        "lines": Setting(list, ()),
    }
    values = read_fields(_Some, {"offset.storage.topic": "o", "max.poll.records": "7", "made": "not read"})
    assert values == {"topic": "o", "max_poll_records": 7, "lines": ()}
    assert _Some(made="m", **values).max_poll_records == 7
    assert _Some(made="m", topic="o").max_poll_records == 500


def test_what_is_missing_or_wrong_is_named_as_it_is_written() -> None:
    with pytest.raises(ConfigError, match=r"MISSING_OPTION. offset\.storage\.topic is missing\. Nothing was read\."):
        read_fields(_Some, {}, "Nothing was read.")
    with pytest.raises(ConfigError, match=r"max\.poll\.records=0 is not a whole number of at least 1"):
        read_fields(_Some, {"offset.storage.topic": "o", "max.poll.records": "0"})
