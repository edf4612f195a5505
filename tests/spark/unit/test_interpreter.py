"""The Python that Spark is given, where nobody has named one."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from semel.spark import interpreter


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another ``python3`` that is first in the PATH, and nothing that says more."""
    path = tmp_path / "python3"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_PYTHON_RUNTIME"):
        monkeypatch.setenv(name, "")  # so that it is as it was afterwards
        monkeypatch.delenv(name)
    monkeypatch.setattr("semel.spark.jvm.context._contexts", lambda: None)
    return path


def settle() -> str | None:
    interpreter.settle.__wrapped__()
    return os.environ.get("PYSPARK_PYTHON")


@pytest.mark.usefixtures("other")
def test_spark_gets_this_python_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    assert settle() == sys.executable
    (said,) = (record.getMessage() for record in caplog.records)
    assert said.startswith(f"PYSPARK_PYTHON is not set: Spark's workers get this Python, {sys.executable}.")


def test_what_somebody_has_named_stays(other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    assert settle() == str(other)
    assert interpreter.workers_python() == (f"PYSPARK_PYTHON={other}", str(other))


@pytest.mark.usefixtures("other")
@pytest.mark.parametrize(
    ("name", "value"),
    [("PYSPARK_SUBMIT_ARGS", "--master yarn pyspark-shell"), ("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")],
    ids=["a cluster", "a worker"],
)
def test_elsewhere_nothing_is_done(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert settle() is None
    assert caplog.records == []


@pytest.mark.usefixtures("other")
def test_a_java_that_runs_already_cannot_be_given_one(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with caplog.at_level(logging.WARNING):
        assert settle() is None
    assert "Spark runs already" in caplog.text


@pytest.mark.usefixtures("other")
def test_an_environment_that_is_activated_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Path(sys.executable).parent
    if (there / "python3").exists():
        monkeypatch.setenv("PATH", str(there))
        assert settle() is None


def test_it_is_settled_when_a_name_is_imported(tmp_path: Path) -> None:
    """Not by the import of a module of the package: executors do that too."""
    code = (
        "import os, semel.spark.errors\nassert 'PYSPARK_PYTHON' not in os.environ\n"
        "from semel.spark import error\nprint(os.environ['PYSPARK_PYTHON'])"
    )
    left = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    left |= {"PATH": str(tmp_path), "PYTHONPATH": str(Path(interpreter.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=left, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == sys.executable
