"""Clusters that Spark's programs are submitted to: a master of Spark's own with a worker, and YARN with a node, as
processes of this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from xml.sax.saxutils import escape

import pyspark

from semel.sandbox import find_java, ivy
from semel.sandbox.jars import cache_directory
from semel.sandbox.ports import Ports
from tests.docs.support.shell import BRIEF, outside
from tests.support.waiting import wait_for

_ME = "127.0.0.1"
_SPARK = Path(pyspark.__file__).parent
_YARN = "org.apache.hadoop.yarn.server"
#: The release of the client that PySpark has.
_HADOOP = "3.5.0"
_BOUNCY_CASTLE = [("org.bouncycastle", f"{name}-jdk18on", "1.82") for name in ("bcprov", "bcpkix", "bcutil")]
#: YARN's servers, and what they need and do not name.
_SERVERS = [("org.apache.hadoop", "hadoop-client-minicluster", _HADOOP), *_BOUNCY_CASTLE]
_ADDRESSES = (
    *(f"yarn.resourcemanager.{name}address" for name in ("webapp.", "", "scheduler.", "resource-tracker.", "admin.")),
    *(f"yarn.nodemanager.{name}address" for name in ("", "localizer.")),
)


_PIPELINE = """
import semel
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from semel.spark import KafkaSink

kafka = {{"kafka.bootstrap.servers": {servers!r}}}
spark = SparkSession.builder.getOrCreate()
home = f.udf(lambda: __import__("semel").__file__)
homes = {{semel.__file__, *(row[0] for row in spark.range(9).select(home()).collect())}}
assert all("/env/lib/" in found for found in homes), homes
rows = spark.readStream.format("semel").options(**kafka, startingOffsets="earliest", subscribe={source!r}).load()
sink = KafkaSink(topic={target!r}, transactionalIdPrefix={target!r}, **kafka)
writer = rows.selectExpr("key", "upper(cast(value as string)) as value").writeStream.foreachBatch(sink)
writer.option("checkpointLocation", {checkpoint!r}).trigger(availableNow=True).start().awaitTermination()
"""


def write_pipeline(path: Path, servers: str, source: str, target: str) -> None:
    """Write a program that copies one topic to another. It fails if its driver or an executor has semel from anywhere
    but an archive ``#env``.
    """
    path.write_text(
        _PIPELINE.format(
            servers=servers, source=source, target=target, checkpoint=str(path.parent / "checkpoints" / target)
        )
    )


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Yield the address of a master that has a worker with two cores."""
    with _ports(2) as (port, web):
        address, status = f"spark://{_ME}:{port}", f"http://{_ME}:{web}/json/"
        master = ["master.Master", "--host", _ME, "--port", str(port), "--webui-port", str(web)]
        worker = [
            "worker.Worker",
            address,
            "--host",
            _ME,
            "--webui-port",
            "0",
            "-c",
            "2",
            "-m",
            "2g",
            "-d",
            str(folder / "work"),
        ]
        with _Server.running(_launched(master), folder / "master.log") as server:
            server.wait_until(status, lambda told: told["status"] == "ALIVE")
            with _Server.running(_launched(worker), folder / "worker.log") as server:
                server.wait_until(status, lambda told: told["aliveworkers"] == 1)
                yield address


def _launched(daemon: Sequence[str]) -> list[str]:
    return [str(_SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{daemon[0]}", *daemon[1:]]


@contextmanager
def yarn(folder: Path) -> Iterator[Path]:
    """Yield the folder with a resource manager's settings, for HADOOP_CONF_DIR and SPARK_CONF_DIR. It has one node."""
    jars = ivy.kept(cache_directory() / "hadoop" / _HADOOP, _SERVERS, f"YARN of Hadoop {_HADOOP}", progress=True)
    conf = folder / "yarn"
    conf.mkdir()
    with _ports(len(_ADDRESSES)) as ports:
        _write_settings(conf, dict(zip(_ADDRESSES, (f"{_ME}:{port}" for port in ports), strict=True)))
        java = [
            find_java(),
            "-XX:TieredStopAtLevel=1",
            "-cp",
            os.pathsep.join(map(str, [conf, *jars, _SPARK / "jars" / "*"])),
        ]
        status = f"http://{_ME}:{ports[0]}/ws/v1/cluster/metrics"
        with _Server.running([*java, f"{_YARN}.resourcemanager.ResourceManager"], folder / "manager.log") as server:
            server.wait_until(status, lambda told: told["clusterMetrics"]["activeNodes"] == 0)
            with _Server.running([*java, f"{_YARN}.nodemanager.NodeManager"], folder / "node.log") as server:
                server.wait_until(status, lambda told: told["clusterMetrics"]["activeNodes"] == 1)
                yield conf


def _write_settings(conf: Path, addresses: Mapping[str, str]) -> None:
    node = "yarn.nodemanager"
    own = {
        "yarn.resourcemanager.scheduler.class": f"{_YARN}.resourcemanager.scheduler.fifo.FifoScheduler",
        f"{node}.hostname": _ME,
        f"{node}.webapp.address": f"{_ME}:0",
        f"{node}.local-dirs": str(conf / "local"),
        f"{node}.log-dirs": str(conf / "logs"),
        f"{node}.vmem-check-enabled": "false",
        f"{node}.disk-health-checker.enable": "false",
        f"{node}.env-whitelist": "JAVA_HOME,PATH,SPARK_LOCAL_IP",
    }
    (conf / "core-site.xml").write_text(_xml({"fs.defaultFS": "file:///"}))
    (conf / "yarn-site.xml").write_text(_xml({**addresses, **own}))
    # as an administrator sets it up: without it, each submission brings all of Spark along
    spark = {
        "yarn.jars": f"local:{_SPARK}/jars/*",
        "yarn.stagingDir": str(conf / "staging"),
        "driver.memory": "1g",
        "executor.instances": "1",
    }
    spark |= dict.fromkeys(("driver.extraJavaOptions", "executor.extraJavaOptions"), BRIEF)
    (conf / "spark-defaults.conf").write_text("".join(f"spark.{name} {value}\n" for name, value in spark.items()))


def _xml(settings: Mapping[str, str]) -> str:
    rows = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n" for name, value in settings.items()
    )
    return f"<configuration>\n{rows}</configuration>\n"


@contextmanager
def _ports(count: int) -> Iterator[list[int]]:
    ports = Ports(count)
    try:
        yield ports.numbers
    finally:
        ports.release()


@dataclass(frozen=True, slots=True)
class _Server:
    """A Java process, and the log of what it prints."""

    process: subprocess.Popen[bytes]
    log: Path

    @staticmethod
    @contextmanager
    def running(argv: Sequence[str], log: Path) -> Iterator[_Server]:
        variables = {**outside(), "SPARK_HOME": str(_SPARK)}
        with log.open("wb") as output:
            process = subprocess.Popen(
                argv, cwd=log.parent, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            yield _Server(process, log)
        finally:
            process.terminate()  # a node ends its containers
            try:
                process.wait(60)
            finally:
                process.kill()

    def wait_until(self, address: str, holds: Callable[[Any], bool]) -> None:
        """For what a page of JSON tells; an end of the process is one."""
        wait_for(lambda: self.process.poll() is not None or _tells(address, holds), address)
        assert self.process.poll() is None, self.log.read_text(errors="replace")[-4000:]


def _tells(address: str, holds: Callable[[Any], bool]) -> bool:
    """Not yet, where it listens without its pages: Spark's answers 404 first, and for a moment its front page at each
    address.
    """
    try:
        with urlopen(address, timeout=5) as answer:
            return holds(json.load(answer))
    except (OSError, json.JSONDecodeError):
        return False
