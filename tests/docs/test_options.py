"""docs/options.md against the code: every option is there, in its own part of the page, with its default."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from semel import config, security
from semel.settings import Setting, as_text
from semel.settings.fields import table_of
from semel.spark.sink import options as sink_options
from semel.spark.source import options as source_options
from semel.transaction.ownership import DEFAULT_TIMEOUT_MS

PAGE = Path(__file__).parents[2] / "docs" / "options.md"
PARTS = ("Both source and sink", "Source", "Sink")
SINK = table_of(sink_options.SinkOptions)
SOURCE = {**table_of(source_options.SourceOptions), **source_options._PARTS}
#: Read by other tables than the client's.
BESIDE = ("kafka.bootstrap.servers", "kafka.group.id", "kafka.security.protocol")
#: Defaults that are not those of the settings' class.
OTHERS = {
    "bootstrap.servers": "required",
    "transaction.timeout.ms": f"{DEFAULT_TIMEOUT_MS}, or the broker's maximum where that is less",
    "max.partition.fetch.bytes": str(source_options._FETCH_BYTES),
}


def part(name: str) -> str:
    """The text below one heading."""
    (text,) = [text for text in PAGE.read_text().split("\n## ") if text.startswith(name)]
    return text


def named(text: str) -> set[str]:
    """What stands in code font."""
    return set(re.findall(r"`([^`]+)`", text))


def rows(name: str) -> dict[str, str]:
    """The options in one part's table, each with what its row says of defaults."""
    cells = [line.split("|")[1:3] for line in part(name).splitlines() if line.startswith("| `")]
    return {option: default.strip() for options, default in cells for option in named(options)}


def test_options_of_the_sink() -> None:
    found = {name for name in rows("Sink") if not name.startswith("kafka.")}
    assert found == set(SINK)


def test_options_of_the_source() -> None:
    found = {name for name in rows("Source") if not name.startswith("kafka.")}
    assert found == set(SOURCE) - set(source_options._IGNORED)
    assert set(source_options._IGNORED) <= named(part("Source").partition("Accepted with a warning")[2])


@pytest.mark.parametrize(("part_name", "table"), [("Sink", SINK), ("Source", SOURCE)])
def test_defaults_of_sparks_options(part_name: str, table: Mapping[str, Setting]) -> None:
    shown = {name: default for name, default in rows(part_name).items() if not name.startswith("kafka.")}
    unset = (None, (), "")
    expected = {name: "" if one.default in unset else as_text(one.default) for name, one in table.items()}
    wrong = {name: default for name, default in shown.items() if expected[name] not in default}
    assert wrong == {}


def test_what_the_source_refuses() -> None:
    refused = part("Source").partition("Refused, with the reason:")[2].partition("\n\n")[0]
    assert named(refused) == {f"kafka.{name}" for name in source_options._REFUSED}


def test_what_takes_one_value_only() -> None:
    text = part("Both").partition("Three take one value only")[2]
    for name, allowed in config.FORCED.items():
        values = " or ".join(f"`{value}`" for value in allowed)
        assert f"`kafka.{name}` ({values})" in text


def test_kafkas_properties() -> None:
    found = [name for each in PARTS for name in rows(each) if name.startswith("kafka.")]
    assert sorted(found) == sorted([*(f"kafka.{name}" for name in config.PROPERTIES), *BESIDE])


@pytest.mark.parametrize("name", ["bootstrap.servers", *config.PROPERTIES])
def test_defaults_of_kafkas_properties(name: str) -> None:
    default = next(rows(each)[f"kafka.{name}"] for each in PARTS if f"kafka.{name}" in rows(each))
    expected = OTHERS.get(name) or str(config.PROPERTIES[name].default)
    assert default.strip("`") == expected


def test_properties_of_security() -> None:
    page = PAGE.with_name("security.md").read_text()
    lines = [line for line in page.partition("## Rights")[0].splitlines() if line.startswith("| `")]
    assert {name for line in lines for name in named(line.split("|")[1])} == security.SECURITY
