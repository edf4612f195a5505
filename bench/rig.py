"""The rig of all measurements: one broker and one Spark with the flags of production, fresh topics, and a count of
their records.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from pyspark.sql import SparkSession
from rich.console import Console

from bench.connector import connector_jars
from semel.config import ClientConfig
from semel.sandbox import Sandbox, Secured
from semel.sandbox.cluster import PLAIN_JVM
from semel.wire.api import topics
from semel.wire.api.offsets import EARLIEST, list_offsets
from semel.wire.client import Client

__all__ = ["CORES", "PARTITIONS", "Incomplete", "Rig", "session"]

#: Tasks that Spark runs at once.
CORES = 2
#: Of the topics that rows per second are measured with.
PARTITIONS = 4
_SPARK = {
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # as the pages advise: Spark's own connector has no Python in its tasks
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}


class Incomplete(Exception):
    """Not all rows arrived: what was measured is not the work that it claims to be."""


@dataclass(frozen=True, slots=True)
class Rig:
    """A broker and a Spark session that knows the JVM connector, for as long as the bench runs.

    ``kafka`` are the options by which a query comes to the broker, for semel and the JVM connector alike; whatever else
    is done goes by ``servers``, without TLS.
    """

    sandbox: Sandbox
    secured: Secured
    kafka: Mapping[str, str]
    spark: SparkSession
    directory: Path
    admin: AdminClient
    client: Client
    console: Console

    @classmethod
    @contextmanager
    def up(cls, console: Console) -> Iterator[Rig]:
        """Start both, and stop both at the end."""
        with ExitStack() as stack:
            jars = connector_jars(progress=True)
            directory = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="semel-bench-", ignore_cleanup_errors=True))
            )
            secured = Secured.make(directory, {})
            # what is deleted goes at once: a minute later it would go in the middle of another run
            sandbox = stack.enter_context(
                Sandbox.start(
                    jvm=PLAIN_JVM, settings={"log.segment.delete.delay.ms": "0"}, secured=secured, progress=True
                )
            )
            console.print("starting Spark", style="dim")
            spark = session(jars, directory)
            stack.callback(spark.stop)
            # the broker ends before it, which it would complain of on the terminal
            admin = AdminClient({"bootstrap.servers": sandbox.bootstrap_servers, "log_level": 0})
            client = stack.enter_context(Client(ClientConfig.parse({"bootstrap.servers": sandbox.bootstrap_servers})))
            plain = {"kafka.bootstrap.servers": sandbox.bootstrap_servers}
            yield cls(sandbox, secured, plain, spark, directory, admin, client, console)

    @property
    def servers(self) -> str:
        """The listener without TLS."""
        return self.sandbox.bootstrap_servers

    def over_tls(self) -> Rig:
        """Return the same rig with queries over TLS, with certificates on both sides."""
        # the one user who may do everything here, as whoever comes without TLS
        trusted, own = self.secured.truststore, self.secured.certificate("ANONYMOUS")
        stores = {
            "truststore.location": str(trusted),
            "truststore.type": "PEM",
            "keystore.location": str(own),
            "keystore.type": "PEM",
        }
        options = {
            "bootstrap.servers": self.sandbox.servers("SSL"),
            "security.protocol": "SSL",
            **{f"ssl.{name}": value for name, value in stores.items()},
        }
        return replace(self, kafka={f"kafka.{name}": value for name, value in options.items()})

    @contextmanager
    def topic(self, name: str, partitions: int = PARTITIONS) -> Iterator[str]:
        """Yield a fresh topic whose partitions all have a leader that knows it. It is deleted at the end."""
        if not topics.create(self.client, name, partitions=partitions, config={}):
            raise Incomplete(f"topic {name} was there before")
        try:
            list_offsets(self.client, {(name, index): EARLIEST for index in range(partitions)}, read_committed=False)
            yield name
        finally:
            self.admin.delete_topics([name])[name].result()

    def check(self, topic: str, rows: int, *, markers: int = 0, partitions: int = PARTITIONS) -> None:
        """Raise :class:`Incomplete` unless the topic has this many offsets, and at most so many more, which hold
        markers.
        """
        asked = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(partitions)}
        found = sum(future.result().offset for future in self.admin.list_offsets(asked).values())
        if not rows <= found <= rows + markers:
            raise Incomplete(f"{rows} rows were to be written to {topic}, and it ends at {found} offsets in all")


def session(jars: list[Path], directory: Path) -> SparkSession:
    """Start a Spark with all but Python's workers in one process, as quick as in production. Its files are in the
    directory.
    """
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("semel bench")
    settings = {
        **_SPARK,
        "spark.jars": ",".join(map(str, jars)),
        "spark.local.dir": str(directory / "spark"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
