"""Kafka's own producer performance tool, in a Java of its own: what a plain producer of this machine reaches without
Spark.

Its rate is the one that it reports itself, which leaves out the start of Java.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping

from semel.sandbox import jars
from semel.sandbox.java import find_java

__all__ = ["produce", "rate_in"]


def produce(servers: str, topic: str, rows: int, size: int, settings: Mapping[str, str] = {}) -> float:
    """Write rows of this size, as fast as it can, with the producer's default settings but for these. Returns rows per
    second.
    """
    tool = [
        find_java(),
        "-Xmx512m",
        "-cp",
        jars.classpath(jars.DEFAULT_VERSION),
        "org.apache.kafka.tools.ProducerPerformance",
    ]
    work = ["--topic", topic, "--num-records", str(rows), "--record-size", str(size), "--throughput", "-1"]
    properties = ["--command-property", f"bootstrap.servers={servers}", "acks=all"]
    properties += [f"{name}={value}" for name, value in settings.items()]
    done = subprocess.run(
        [*tool, *work, *properties], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(
            f"Kafka's producer performance tool ended with {done.returncode}:"
            f" {(done.stdout + done.stderr)[-1000:].strip()}"
        )
    return rate_in(done.stdout)


def rate_in(output: str) -> float:
    """Return the rate of the whole run. The last line sums up, and those before report a few seconds each."""
    found = re.findall(r"^\d+ records sent, ([\d.]+) records/sec", output, re.MULTILINE)
    if not found:
        raise RuntimeError(f"Kafka's producer performance tool reported no rate: {output[-1000:].strip()!r}")
    return float(found[-1])
