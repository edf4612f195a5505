"""The text of Spark's offset log."""

from __future__ import annotations

import pytest

from semel.errors import Unsupported
from semel.spark.jvm.offset_log import parse_offset_log
from semel.spark.jvm.values import OffsetLogEntry

METADATA = '{"batchWatermarkMs":0}'


def test_sources_by_position() -> None:
    entry = parse_offset_log(f'v1\n{METADATA}\n{{"offset":10}}\n-\n5', "offsets/3")
    assert entry == OffsetLogEntry(1, {"0": '{"offset":10}', "1": None, "2": "5"})


def test_sources_by_name() -> None:
    entry = parse_offset_log(f'v2\n{METADATA}\nleft:{{"offset":10}}\n1:-', "offsets/3")
    assert entry == OffsetLogEntry(2, {"left": '{"offset":10}', "1": None})


def test_a_newer_version_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"offsets/3 .* has version 'v3'") as caught:
        parse_offset_log(f"v3\n{METADATA}\n", "offsets/3")
    assert caught.value.tag == "OFFSET_VERSION"
