"""What semel declares against what is installed."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from semel.admin.check import Result
from semel.cli.local_checks import machine, packages

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
        ('pyspark<4.4,>=4.3; extra == "spark"', "4.2.9", Result.REFUSED),
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
    assert {"Java", "Python", *declared} == found.keys()
    assert {one.verdict for one in found.values()} == {Result.OK}
    assert metadata.version("kafka-python") in found["kafka-python"].found


def test_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    java = next(machine())
    assert (java.subject, java.verdict) == ("Java", Result.REFUSED)
    assert "/nowhere" in java.found
