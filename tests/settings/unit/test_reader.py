"""The reader of settings: defaults, and one wording for what is missing, wrong or unknown."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from semel.errors import ConfigError
from semel.settings import Setting, missing, nearest, read_settings, read_value, unknown
from semel.settings.properties_file import parse_properties, read_properties
from semel.settings.unused import Names, warn_of_unused

TABLE = {
    "name": Setting(str),
    "retries": Setting(int, 3, 0),
    "password": Setting(int, 0, secret=True),
    "topics": Setting(list, ()),
}


def test_defaults_and_values() -> None:
    assert read_settings(TABLE, {"name": "n"}) == {"name": "n", "retries": 3, "password": 0, "topics": ()}
    given = {"name": " n ", "retries": 5, "password": None, "topics": "a,b", "other": "x"}
    assert read_settings(TABLE, given) == {"name": " n ", "retries": 5, "password": 0, "topics": ["a", "b"]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "[SEMEL_MISSING_OPTION] name is missing. Nothing was read. Give it."),
        ({"name": " "}, "[SEMEL_MISSING_OPTION] name is missing. Nothing was read. Give it."),
        (
            {"name": "n", "retries": "-1"},
            "[SEMEL_WRONG_VALUE] retries=-1 is not a whole number of at least 0. Nothing was read. Correct it.",
        ),
        (
            {"name": "n", "retries": ""},
            "[SEMEL_WRONG_VALUE] retries= is not a whole number of at least 0. Nothing was read. Correct it.",
        ),
        (
            {"name": "n", "password": "geheim"},
            "[SEMEL_WRONG_VALUE] password=[hidden] is not a whole number. Nothing was read. Correct it.",
        ),
    ],
)
def test_what_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_settings(TABLE, given, "Nothing was read.")
    assert str(refused.value) == message


def test_a_long_value_is_cut() -> None:
    with pytest.raises(ConfigError) as refused:
        read_value("retries", "9" * 5000, TABLE["retries"])
    assert len(str(refused.value)) < 400


def test_unknown_names() -> None:
    assert str(unknown("nam", TABLE)) == (
        "[SEMEL_UNKNOWN_OPTION] nam is not a known property; did you mean name? Nothing was read or written."
        " Correct or remove it."
    )
    assert "xyz is not a known key. Nothing was copied." in str(
        unknown("xyz", TABLE, "Nothing was copied.", what="key")
    )
    assert "x is not a known option; did you mean y? " in str(unknown("x", (), what="option", hint="; did you mean y?"))
    assert nearest("x" * 300_000, TABLE) == ""
    assert missing("a", remedy="Give a:b.").message == "a is missing. Nothing was read or written. Give a:b."


def test_names_that_change_nothing_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "semel")
    for _ in range(2):
        warn_of_unused("a test", {"b.c", "a"})
        warn_of_unused("a test", [])
    assert caplog.messages == ["these properties of a test change nothing here: a, b.c"]
    warn_of_unused("a test", ["a"])
    assert len(caplog.messages) == 2


def test_names_and_beginnings() -> None:
    names = Names("plugin.path\n  metrics. consumer.")
    assert [one for one in ("plugin.path", "plugin.paths", "metrics.x", "metrics", "consumer.") if one in names] == [
        "plugin.path",
        "metrics.x",
        "consumer.",
    ]
    assert names.exact == {"plugin.path"}


def test_a_file_of_properties(tmp_path: Path) -> None:
    path = tmp_path / "a.properties"
    path.write_text("a = b\n# c\nd.e: f \\\n  g\n")
    assert read_properties(path) == {"a": "b", "d.e": "f g"}
    path.write_bytes(b"sasl.password = \xff\\uXYZ1")
    wrong = r"SEMEL_PROPERTIES. .* cannot be read: UnicodeDecodeError. Nothing"
    with pytest.raises(ConfigError, match=wrong) as refused:
        read_properties(path, "Nothing was sent.", "--file ")
    assert "password" not in str(refused.value)
    with pytest.raises(ConfigError, match=wrong):
        parse_properties(path.read_bytes(), "x")
    with pytest.raises(ConfigError, match=r"--file .*none cannot be read: FileNotFoundError. Nothing was sent."):
        read_properties(tmp_path / "none", "Nothing was sent.", "--file ")
