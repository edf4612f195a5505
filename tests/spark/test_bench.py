"""The bench runs: everything once, with rows so few that the figures mean nothing. It checks itself that all of them arrive."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from bench.report import BEGIN, END
from semel.testing.spark_home import java_options, spark_home

ROOT = Path(__file__).parents[2]
SMALL = "--sink-rows 2000 --source-rows 2000 --rounds 1 --batches 1 --partitions 4".split()


def test_the_bench_measures_everything_and_keeps_it(tmp_path: Path) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text(f"prose\n{BEGIN}\n{END}\n")
    command = [sys.executable, "-m", "bench", *SMALL, "--document", str(document)]
    submit = shlex.join(["--conf", f"spark.driver.extraJavaOptions={java_options()}", "pyspark-shell"])
    quick = {"SPARK_HOME": str(spark_home()), "PYSPARK_SUBMIT_ARGS": submit, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **quick}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    kept = document.read_text()
    for work in ("sink, free rows", "sink, keyed rows", "source", "micro-batch, 4 partitions"):
        assert f"| {work} |" in kept
    assert kept.startswith("prose\n")
    assert document.with_suffix(".png").exists()
