"""Executors with another semel than the driver's: each refuses, naming both, before a row is read or written."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

import semel
from semel.sandbox import Sandbox
from semel.testing.crash import CrashPlan
from semel.testing.spark.spark_cluster import SparkCluster
from tests.spark.support.topics_and_drivers import create, everything, produce, progress
from tests.support.waiting import PATIENCE_S

OTHER = "0.0.7"
#: What the other version does not have: nothing may need it before the versions are compared.
UNKNOWN_THERE = (
    "spark/sink/write_stage.py",
    "spark/sink/encode_stage.py",
    "spark/source/readers.py",
    "transaction/participant.py",
    "read/ranges.py",
)


def other_semel(folder: Path) -> Path:
    """A copy of semel with another version, from which modules are missing. Returns the folder that it lies in."""
    home = Path(semel.__file__).parent
    shutil.copytree(home, folder / "semel", ignore=shutil.ignore_patterns("__pycache__"))
    known = folder / "semel" / "_version.py"
    text = known.read_text()
    assert text.count(f'"{semel.__version__}"') == 1
    known.write_text(text.replace(f'"{semel.__version__}"', f'"{OTHER}"'))
    for name in UNKNOWN_THERE:
        (folder / "semel" / name).unlink()
    return folder


@pytest.mark.exhaustive
def test_executors_with_another_version_refuse(kafka: Sandbox, tmp_path: Path) -> None:
    source, target = create(kafka, "versions-in", 2), create(kafka, "versions-out", 2)
    produce(kafka, source, range(10))
    there = other_semel(tmp_path / "other")
    settings = {
        "spark.executorEnv.PYTHONPATH": str(there),
        "spark.python.daemon.module": "pyspark.daemon",
        "spark.task.maxFailures": "1",
    }
    # Python itself and Spark's own daemon, and not those that come with the driver's semel in them; Spark gives
    # executors the driver's path, too
    python = [f"{name}={sys.executable}" for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")]
    argv = [
        "env",
        "--unset=PYTHONPATH",
        *python,
        sys.executable,
        "-m",
        "tests.spark.programs.versions",
        kafka.bootstrap_servers,
        source,
        target,
    ]
    with SparkCluster(settings=settings).driver(argv, CrashPlan(tmp_path / "plan")) as driver:
        assert driver.wait(PATIENCE_S) == 0, driver.tail()
        text = driver.log.read_text()
    said, _ = json.JSONDecoder().raw_decode(
        text, text.rindex('{"read"')
    )  # Spark's bar of progress ends without a line's end

    for work, made in {"read": "the plan of this source", "keyed": "the job", "free": "the job"}.items():
        kind, tag, message = said[work]
        assert (kind, tag) == ("ConfigError", "OTHER_VERSION"), said
        assert message.startswith(f"semel {semel.__version__} made {made}, and this process on "), message
        assert f"has semel {OTHER}. It has read and written nothing." in message
        assert "same wheel" in message
    assert everything(kafka.bootstrap_servers, target) == []
    assert progress(kafka.bootstrap_servers, target, "batch") is None
