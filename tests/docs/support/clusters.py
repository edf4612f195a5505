"""Clusters that Spark's programs are submitted to: a master of Spark's own with a worker, and YARN with a node, as
processes of this machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.docs.support.shell import BRIEF
from tests.support.hadoop import ME, SPARK, Server, java, ports, xml

_YARN = "org.apache.hadoop.yarn.server"
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
    with ports(2) as (port, web):
        address, status = f"spark://{ME}:{port}", f"http://{ME}:{web}/json/"
        master = ["master.Master", "--host", ME, "--port", str(port), "--webui-port", str(web)]
        worker = [
            "worker.Worker",
            address,
            "--host",
            ME,
            "--webui-port",
            "0",
            "-c",
            "2",
            "-m",
            "2g",
            "-d",
            str(folder / "work"),
        ]
        with Server.running(_launched(master), folder / "master.log") as server:
            server.wait_until(status, lambda told: told["status"] == "ALIVE")
            with Server.running(_launched(worker), folder / "worker.log") as server:
                server.wait_until(status, lambda told: told["aliveworkers"] == 1)
                yield address


def _launched(daemon: Sequence[str]) -> list[str]:
    return [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{daemon[0]}", *daemon[1:]]


@contextmanager
def yarn(folder: Path) -> Iterator[Path]:
    """Yield the folder with a resource manager's settings, for HADOOP_CONF_DIR and SPARK_CONF_DIR. It has one node."""
    conf = folder / "yarn"
    conf.mkdir()
    with ports(len(_ADDRESSES)) as numbers:
        _write_settings(conf, dict(zip(_ADDRESSES, (f"{ME}:{port}" for port in numbers), strict=True)))
        status = f"http://{ME}:{numbers[0]}/ws/v1/cluster/metrics"
        with Server.running(
            [*java(conf), f"{_YARN}.resourcemanager.ResourceManager"], folder / "manager.log"
        ) as server:
            server.wait_until(status, lambda told: told["clusterMetrics"]["activeNodes"] == 0)
            with Server.running([*java(conf), f"{_YARN}.nodemanager.NodeManager"], folder / "node.log") as server:
                server.wait_until(status, lambda told: told["clusterMetrics"]["activeNodes"] == 1)
                yield conf


def _write_settings(conf: Path, addresses: Mapping[str, str]) -> None:
    node = "yarn.nodemanager"
    own = {
        "yarn.resourcemanager.scheduler.class": f"{_YARN}.resourcemanager.scheduler.fifo.FifoScheduler",
        f"{node}.hostname": ME,
        f"{node}.webapp.address": f"{ME}:0",
        f"{node}.local-dirs": str(conf / "local"),
        f"{node}.log-dirs": str(conf / "logs"),
        f"{node}.vmem-check-enabled": "false",
        f"{node}.disk-health-checker.enable": "false",
        f"{node}.env-whitelist": "JAVA_HOME,PATH,SPARK_LOCAL_IP",
    }
    (conf / "core-site.xml").write_text(xml({"fs.defaultFS": "file:///"}))
    (conf / "yarn-site.xml").write_text(xml({**addresses, **own}))
    # as an administrator sets it up: without it, each submission brings all of Spark along
    spark = {
        "yarn.jars": f"local:{SPARK}/jars/*",
        "yarn.stagingDir": str(conf / "staging"),
        "driver.memory": "1g",
        "executor.instances": "1",
    }
    spark |= dict.fromkeys(("driver.extraJavaOptions", "executor.extraJavaOptions"), BRIEF)
    (conf / "spark-defaults.conf").write_text("".join(f"spark.{name} {value}\n" for name, value in spark.items()))
