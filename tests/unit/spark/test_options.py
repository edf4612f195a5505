from __future__ import annotations

import pytest

from semel.errors import ConfigError
from semel.spark.options import SinkOptions, number
from semel.spark.source_options import SourceOptions

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


@pytest.mark.parametrize(("text", "value"), [("0", 0), (" 7 ", 7), ("007", 7), ("9000000000", 9_000_000_000)])
def test_a_whole_number(text: str, value: int) -> None:
    assert number({"maxBatchRetries": text}, "maxBatchRetries", 3) == value


def test_the_default_of_a_number() -> None:
    assert number({}, "maxBatchRetries", 3) == 3


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.5", "many", "\u00b2", "1\u00b2", "0x10", "1_000"])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    """A superscript two is a digit to Python's isdigit, and none to int()."""
    with pytest.raises(ConfigError, match="is not a whole number of at least 0"):
        SinkOptions.parse({**SERVERS, "topic": "out", "transactionalIdPrefix": "p", "maxBatchRetries": text})
    with pytest.raises(ConfigError, match=r"minPartitions=.* is not a whole number of at least 1"):
        SourceOptions.parse({**SERVERS, "subscribe": "in", "minPartitions": text})
