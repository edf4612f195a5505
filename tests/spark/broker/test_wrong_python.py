"""A virtual environment that is not activated: ``python3`` of the PATH is a Python without semel."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import semel
from semel.sandbox import Sandbox
from semel.testing.spark.spark_home import java_options, spark_home
from tests.spark.support.topics_and_drivers import create, produce, unique, values
from tests.support.waiting import PATIENCE_S, wait_for

HOME = Path(semel.__file__).parents[1]
_LOAD = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").getOrCreate()
{after}
from semel.spark import error, keep_running
load = lambda: spark.readStream.format("semel").load()
for call in (load, lambda: keep_running(load)):
    try:
        call()
    except Exception as raised:
        print(repr(error(raised)))
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Without what would name a Python, and with another ``python3`` first in the PATH."""
    other = tmp_path / "other" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho no semel here >&2\nexit 7\n")
    other.chmod(0o755)
    left = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "PYTHON"))}
    submit = shlex.join(["--driver-java-options", java_options(), "pyspark-shell"])
    given = {"SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_SUBMIT_ARGS": submit}
    return {**left, **given, "PATH": f"{other.parent}{os.pathsep}{left['PATH']}", "PYTHONPATH": str(HOME)}


@pytest.mark.exhaustive  # its sample is the README, whose blocks are run
def test_the_first_program_of_the_readme_runs_as_it_is(
    kafka: Sandbox, tmp_path: Path, environment: dict[str, str]
) -> None:
    found = re.search(r"```python\n(.*?)```", (HOME / "README.md").read_text(), re.DOTALL)
    assert found is not None
    source, target = create(kafka, "first-in", 2), create(kafka, "first-out", 2)
    produce(kafka, source, range(10))
    names = {"localhost:9092": kafka.bootstrap_servers, '"orders"': f'"{source}"', '"/data/priced"': f'"{tmp_path}/cp"'}
    names |= {'topic="priced"': f'topic="{target}"', 'Prefix="priced"': f'Prefix="{unique("first")}"'}
    program = found[1]
    for name, ours in names.items():
        assert name in program
        program = program.replace(name, ours)
    log = tmp_path / "log"
    with log.open("w") as out:
        running = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=out, stderr=out)
        try:
            wait_for(
                lambda: len(values(kafka.bootstrap_servers, target)) == 10 or running.poll() is not None,
                "the rows of the first program",
                PATIENCE_S,
            )
        finally:
            running.kill()
            running.wait()
    assert len(values(kafka.bootstrap_servers, target)) == 10, log.read_text()[-3000:]
    assert f"PYSPARK_PYTHON is not set: Spark's workers get this Python, {sys.executable}" in log.read_text()


@pytest.mark.exhaustive
def test_a_python_without_semel_is_named(environment: dict[str, str]) -> None:
    """Spark's Java runs already when semel is imported: then it is too late to give it this Python."""
    program = [sys.executable, "-c", _LOAD.format(after="")]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    assert "Spark runs already, and starts its workers with the python3 of the PATH" in done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith("ConfigError")]
    assert len(said) == 2, done.stdout + done.stderr[-3000:]
    assert all("[SEMEL_WRONG_PYTHON] the Python that Spark starts has no semel" in line for line in said)
    assert all(f"this one is {sys.executable}" in line for line in said)
