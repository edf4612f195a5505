"""The examples and the demo, run as a user runs them; the pipeline is killed on the way."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.testing.crash import CrashPlan
from semel.testing.spark.spark_home import java_options, spark_home
from tests.spark.support.topics_and_drivers import LOCAL_DRIVER, create, produce, values
from tests.support.waiting import PATIENCE_S

EXAMPLES = Path(__file__).parents[3] / "examples"


def example(name: str, kafka: Sandbox, *arguments: str) -> list[str]:
    return [sys.executable, str(EXAMPLES / name), kafka.bootstrap_servers, *arguments]


@pytest.mark.exhaustive  # its sample is the demo, which is killed in the same way
def test_pipeline(kafka: Sandbox, tmp_path: Path) -> None:
    """By the crash test that users are shown: a worker and the driver are killed on the way."""
    runpy.run_path(str(EXAMPLES / "test_pipeline_crash.py"))["test_not_one_order_is_lost_or_doubled"](kafka, tmp_path)


@pytest.mark.exhaustive  # its sample is the README, which runs it
def test_batch_job(kafka: Sandbox, tmp_path: Path) -> None:
    topic = create(kafka, "example-report", 2)
    for version, printed in (("20261121", "100,000 rows in "), ("20261121", "skipped")):
        plan = CrashPlan(tmp_path / printed.strip())
        assert LOCAL_DRIVER.run_until_done(example("batch_job.py", kafka, topic, version), plan, 0) == 0
        assert printed in (plan.directory / "run-0.log").read_text()
        assert len(values(kafka.bootstrap_servers, topic)) == 100_000


READ = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.extraJavaOptions", "{java}").getOrCreate()
topic = spark.read.format("semel").option("kafka.bootstrap.servers", "{servers}").option("subscribe", "{topic}")
print("rows:", topic.load().count())
"""


@pytest.mark.exhaustive
def test_a_program_anywhere_on_the_disk_finds_the_source(kafka: Sandbox, tmp_path: Path) -> None:
    """It is installed, and not only found because the checkout is the working directory or on PYTHONPATH."""
    topic = create(kafka, "example-anywhere", 2)
    produce(kafka, topic, range(30))
    (tmp_path / "mine.py").write_text(READ.format(servers=kafka.bootstrap_servers, topic=topic, java=java_options()))
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables |= {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "mine.py"], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert "rows: 30" in done.stdout, done.stderr[-3000:]


def test_plain_python(kafka: Sandbox, tmp_path: Path) -> None:
    topic = create(kafka, "example-plain", 2)
    done = subprocess.run(example("plain_python.py", kafka, topic), capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("committed last:")
    assert sorted(values(kafka.bootstrap_servers, topic)) == ["first", *["paid"] * 2_000, "second"]


@pytest.mark.parametrize(
    ("arguments", "status", "printed"),
    [
        pytest.param(
            ["--orders", "10000"],
            0,
            ["what an independent", "starts of Spark", "trigger(availableNow=True).start().awaitTermination()\n"],
            marks=pytest.mark.exhaustive,  # six starts of Spark
        ),
        (["--orders", "10"], 2, ["1000"]),
    ],
)
def test_demo(arguments: list[str], status: int, printed: list[str], tmp_path: Path) -> None:
    argv = [str(Path(sys.executable).with_name("semel")), "demo", *arguments]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=4 * PATIENCE_S)
    assert done.returncode == status, done.stdout + done.stderr
    for text in printed:
        assert text in done.stdout + done.stderr


@pytest.mark.exhaustive
@pytest.mark.spark_4_2
def test_a_declarative_pipeline(kafka: Sandbox, tmp_path: Path) -> None:
    """The second run finds nothing new."""
    source, target = create(kafka, "example-orders-in", 2), create(kafka, "example-orders-out", 2)
    produce(kafka, source, range(300))
    folder = tmp_path / "pipelines"
    shutil.copytree(EXAMPLES / "pipelines", folder)
    settings = (folder / "spark-pipeline.yml").read_text().replace("/tmp/orders-pipeline", f"{tmp_path}/storage")
    for name, value in {"localhost:9092": kafka.bootstrap_servers, "orders-in": source, "orders-out": target}.items():
        settings = settings.replace(f": {name}", f": {value}")
    (folder / "spark-pipeline.yml").write_text(settings)
    variables = {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [f"{spark_home()}/bin/spark-pipelines", "run", "--spec", f"{folder}/spark-pipeline.yml"]
    for _ in range(2):
        done = subprocess.run(
            command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert len(values(kafka.bootstrap_servers, target)) == 300
