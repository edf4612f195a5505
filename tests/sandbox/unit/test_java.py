"""Java that is missing or too old is said, with the way to get it."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.errors import ConfigError
from semel.sandbox import find_java


def java(home: Path, script: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("version", ["17.0.15", "21", "26-ea"])
def test_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    program = java(tmp_path, f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == str(program)


@pytest.mark.parametrize(("version", "read"), [("1.8.0_402", 8), ("11.0.2", 11), ("16", 16)])
def test_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, read: int) -> None:
    java(tmp_path, f"echo 'java version \"{version}\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=rf"JAVA_TOO_OLD.*is Java {read}, .*Install Java 17"):
        find_java()


def test_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"JAVA_MISSING.*Install Java 17"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"JAVA_HOME is .*which has no bin/java"):
        find_java()


def test_a_program_that_only_stands_in_for_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(tmp_path, "echo 'Unable to locate a Java Runtime.' >&2; exit 1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="Unable to locate a Java Runtime"):
        find_java()
