"""The bench runs: each way of it once, with rows so few that the figures mean nothing.

It checks itself that all of them arrive.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from rich.console import Console

from bench.recovery import Recovery
from bench.report import BEGIN, END
from bench.rig import Rig
from semel.config import ClientConfig
from semel.sandbox import Sandbox, Secured
from semel.testing.spark.spark_home import java_options, spark_home
from semel.wire.client import Client

ROOT = Path(__file__).parents[3]
#: Keyed rows go the same ways.
WORK = {"sink-free": ["sink, free rows"], "source": ["source"], "micro-batches": ["micro-batch, 4 partitions"]}
MORE = {"tls": ["sink, free rows, TLS", "source, TLS"], "outbox": ["outbox on SQLite, units of 100 rows"]}
SMALL = "--sink-rows 2000 --source-rows 2000 --rounds 1 --no-warm-up --batches 1 --partitions 4 --units 3".split()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark starts quickly and compiles little: nobody reads these figures."""
    monkeypatch.setenv("SPARK_HOME", str(spark_home()))
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS",
        shlex.join(["--conf", f"spark.driver.extraJavaOptions={java_options()}", "pyspark-shell"]),
    )
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")


@pytest.mark.exhaustive
@pytest.mark.parametrize("works", [WORK, MORE])
def test_the_bench_measures_and_keeps_it(tmp_path: Path, works: dict[str, list[str]]) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text(f"prose\n{BEGIN}\n{END}\n")
    command = [
        sys.executable,
        "-m",
        "bench",
        *SMALL,
        *(f"--only={work}" for work in works),
        "--document",
        str(document),
    ]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    kept = document.read_text()
    for work in chain.from_iterable(works.values()):
        assert f"| {work} |" in kept
    assert kept.startswith("prose\n")
    assert document.with_suffix(".png").exists()


@pytest.mark.exhaustive  # it starts Kafka's own Connect twice
def test_connect_is_measured_beside_kafkas_own() -> None:
    small = ["--connect-lines", "20000", "--connect-transactions", "20", "--rounds", "1", "--no-warm-up"]
    command = [sys.executable, "-m", "bench", *small, "--only=connect"]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for work in ("connect, lines, interval 1 s", "connect, transactions of 2 lines"):
        assert done.stdout.count(f"{work} ") >= 2


@pytest.mark.exhaustive
def test_a_driver_is_killed_and_the_way_to_its_next_commit_is_split(
    kafka: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    secured, plain = Secured.make(tmp_path, {}), {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    with Client(ClientConfig.parse({"bootstrap.servers": kafka.bootstrap_servers})) as client:
        recovery = Recovery()
        milliseconds = recovery.kill(
            Rig(kafka, secured, plain, spark, tmp_path, admin, client, Console(quiet=True)), "exactly_once", 1
        )
    split = recovery.split()
    assert list(split) == ["Spark's start", "taking over", "the first batch"]
    assert all(part > 0 for part in split.values())
    assert milliseconds > 900 * sum(split.values()), (
        "rows are read at their commit, at which a marker may be a little earlier than the answer"
    )
    assert str(recovery) == f"{sum(split.values()):.1f} s: " + ", ".join(
        f"{name} {s:.2f} s ({s:.2f} to {s:.2f})" for name, s in split.items()
    )
