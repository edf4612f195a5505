"""Kafka's jars in the cache: what is damaged or missing is seen, and an unreachable repository is said."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import pytest

from semel.errors import ConfigError
from semel.sandbox import Sandbox, jars

VERSION = "4.3.1"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that holds a version, in which small files stand for the jars; and no repository within reach."""
    monkeypatch.setenv("SEMEL_CACHE", str(tmp_path))
    monkeypatch.setenv("SEMEL_MAVEN", (tmp_path / "no-repository").as_uri())
    home = tmp_path / "kafka" / VERSION
    (home / "jars").mkdir(parents=True)
    (home / "formatted").mkdir()
    content = {"jars/a.jar": b"a", "jars/b.jar": b"b", "formatted/bootstrap.checkpoint": b"records"}
    for name, data in content.items():
        (home / name).write_bytes(data)
    lines = (f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in content.items())
    (home / "manifest.sha256").write_text("".join(lines))
    return home


def test_a_sound_cache_is_used_as_it_is(cache: Path) -> None:
    assert jars.classpath(VERSION) == f"{cache / 'jars' / 'a.jar'}:{cache / 'jars' / 'b.jar'}"
    assert jars.formatted(VERSION, {}) == {"bootstrap.checkpoint": b"records"}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda home: (home / "jars" / "a.jar").write_bytes(b"x"), "jars/a.jar does not have the checksum"),
        (lambda home: (home / "jars" / "b.jar").unlink(), "jars/b.jar is missing"),
        (lambda home: (home / "jars" / "c.jar").write_bytes(b"c"), "jars/c.jar is missing or does not belong"),
        (
            lambda home: (home / "formatted" / "bootstrap.checkpoint").write_bytes(b""),
            "bootstrap.checkpoint does not have the checksum",
        ),
        (lambda home: (home / "manifest.sha256").unlink(), "manifest.sha256 is missing"),
    ],
)
def test_damage_is_named_and_fetched_again(
    cache: Path, caplog: pytest.LogCaptureFixture, damage: object, said: str
) -> None:
    assert callable(damage)
    damage(cache)
    with caplog.at_level(logging.WARNING, "semel.sandbox"), pytest.raises(ConfigError, match="JARS_DAMAGED") as caught:
        jars.classpath(VERSION)
    assert said in str(caught.value)
    assert said in caplog.text


def test_an_unreachable_repository_is_said(cache: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"(?s)JARS_UNREACHABLE.*Apache Kafka 4\.2\.9 could not be fetched.*SEMEL_MAVEN.*not found"
    ):
        jars.classpath("4.2.9")
    assert not (cache.parent / "4.2.9").exists()
    assert [path.name for path in cache.parent.iterdir() if path.name.startswith(".new-")] == []


@pytest.mark.parametrize("version", ["", "4", "latest", "../4.3.1", "4.3.1-rc0"])
def test_what_is_no_version_is_refused(cache: Path, version: str) -> None:
    with pytest.raises(ConfigError, match="is no version of Kafka"):
        jars.classpath(version)


def test_of_several_versions_none_is_fetched_where_one_is_none(cache: Path) -> None:
    assert jars.install_all([VERSION, VERSION]) == [cache, cache]
    with pytest.raises(ConfigError, match="'4' is no version of Kafka"):
        jars.install_all(["4.2.9", "4"])


def test_a_variable_names_the_version_where_nothing_else_does(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(jars.VERSION_VARIABLE, raising=False)
    assert jars.chosen_version() == jars.DEFAULT_VERSION
    monkeypatch.setenv(jars.VERSION_VARIABLE, "4.2.9")
    with pytest.raises(ConfigError, match=r"Apache Kafka 4\.2\.9 could not be fetched"):
        Sandbox.start()


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SEMEL_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert jars.cache_directory() == tmp_path / ".cache" / "semel"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert jars.cache_directory() == tmp_path / "x" / "semel"
    monkeypatch.setenv("SEMEL_CACHE", str(tmp_path / "own"))
    assert jars.cache_directory() == tmp_path / "own"
