"""What semel declares against what is installed."""

from __future__ import annotations

import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from semel.admin.check import Result
from semel.cli.local_checks import machine, packages, sparks_python

DECLARED = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize(
    ("requirement", "installed", "verdict"),
    [
        ("pyarrow>=19", "19", Result.OK),
        ("pyarrow>=19", "26.0.1", Result.OK),
        ("pyarrow>=19", "18.9.9", Result.REFUSED),
        ("pyarrow>=19", None, Result.REFUSED),
        ("kafka-python<3.1,>=3.0.12", "3.0.12", Result.OK),
        ("kafka-python<3.1,>=3.0.12", "3.0.9", Result.REFUSED),
        ("kafka-python<3.1,>=3.0.12", "3.1", Result.REFUSED),
        ('pyspark<4.4,>=4.3; extra == "spark"', "4.3.0.dev1", Result.OK),
        ('pyspark<4.4,>=4.0; extra == "spark"', "4.0.5", Result.OK),
        ('pyspark<4.4,>=4.0; extra == "spark"', "3.5.9", Result.REFUSED),
        ('pyspark<4.4,>=4.0; extra == "spark"', "4.4.0", Result.WARNING),
        ('pyspark<4.4,>=4.3; extra == "spark"', None, Result.WARNING),
    ],
)
def test_a_package(requirement: str, installed: str | None, verdict: Result) -> None:
    (found,) = packages([requirement], lambda _: installed)
    assert found.verdict is verdict
    assert (found.advice == "") == (verdict is Result.OK)


def test_what_tests_need_is_not_looked_at() -> None:
    assert list(packages(['pytest>=8.3; extra == "testing"'], lambda _: None)) == []


def test_all_that_is_declared_is_looked_at_here() -> None:
    found = {one.subject: one for one in machine()}
    declared = [
        text.partition(">")[0] for text in (*DECLARED["dependencies"], *DECLARED["optional-dependencies"]["spark"])
    ]
    assert {"Java", "Python", "Spark's Python", *declared} == found.keys() - {"PYTHONDONTWRITEBYTECODE"}
    assert {found[name].verdict for name in ("Java", "Python", *declared)} == {Result.OK}
    assert metadata.version("kafka-python") in found["kafka-python"].found


def test_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    java = next(machine())
    assert (java.subject, java.verdict) == ("Java", Result.REFUSED)
    assert "/nowhere" in java.found


def a_python(folder: Path, script: str) -> Path:
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("exit 7", "does not start"),
        ("echo '[[3, 2, 1], \"0.1.0\"]'", "3.2.1, with semel 0.1.0 ({path}, {name}); this is 3."),
        (f"echo '[{list(sys.version_info[:3])}, null]'", "with no semel ({path}, {name})"),
        (f"echo '[{list(sys.version_info[:3])}, \"0.0.7\"]'", "with semel 0.0.7 ({path}, {name}); this is "),
    ],
    ids=["broken", "older", "without", "another"],
)
def test_another_python_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool, script: str, found: str
) -> None:
    """Named by somebody it would be taken; where nobody has named one, semel.spark names its own."""
    path = a_python(tmp_path, script)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if named:
        monkeypatch.setenv("PYSPARK_PYTHON", str(path))
    else:
        monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    (check,) = sparks_python()
    name = f"PYSPARK_PYTHON={path}" if named else "python3 of the PATH"
    assert found.format(path=path, name=name) in check.found
    assert check.verdict is (Result.REFUSED if named else Result.WARNING)
    assert f"PYSPARK_PYTHON={sys.executable}" in check.advice


def test_this_python_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    right, compiled = sparks_python()
    assert right.verdict is Result.OK
    assert compiled.verdict is Result.WARNING


def test_a_python_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/python3")
    check = next(sparks_python())
    assert (check.found, check.verdict) == ("PYSPARK_PYTHON=/nowhere/python3 does not start", Result.REFUSED)
