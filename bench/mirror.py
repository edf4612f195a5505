"""The mirror beside MirrorMaker 2, both exactly once: one topic of 4 partitions, from one broker to another.

Three inputs: batches as Kafka's producer makes them (16 kB), of one record, and of 1 MB. A mirror is measured from its
start in a Spark that runs already, with taking over and the making of the topic, to its end. MirrorMaker 2 is measured
from the moment that its first records are visible to the last, so that the start of Java and of its connectors does not
count.

And how long a record takes from its producer to a read_committed reader of the target, at 100 records a second.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from bench import perf_tool, rows
from bench.figures import Figure, ratios
from bench.latency import compared, percentiles, writing
from bench.programs import running, working
from bench.rig import PARTITIONS, Incomplete, Rig
from bench.rounds import Contender, interleave
from semel.config import ClientConfig
from semel.mirror.config.properties import read_properties
from semel.mirror.flow import Flow
from semel.sandbox import Sandbox, ivy, jars
from semel.sandbox.cluster import PLAIN_JVM
from semel.sandbox.java import find_java
from semel.testing.records import arrived
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.client import Client

__all__ = ["MIRROR_MAKER", "measure"]

MIRROR_MAKER = "MirrorMaker 2, exactly once"
_OURS = "semel"
_MODULES = ("connect-mirror", "connect-mirror-client", "connect-runtime")
#: By the name of the work: the producer's batch.size, the share of the records that are written, target and aim.
_INPUTS = {
    "16 kB": (16_384, 1.0, 5.0, 15.0),
    "one record": (0, 0.1, 1.0, None),
    "1 MB": (1_000_000, 1.0, None, None),
}
_FILE = """clusters = {alias}, B
{alias}.bootstrap.servers = {source}
B.bootstrap.servers = {target}
{alias}->B.enabled = true
{alias}->B.topics = {topic}
B.exactly.once.source.support = enabled
replication.factor = 1
checkpoints.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset.storage.replication.factor = 1
config.storage.replication.factor = 1
status.storage.replication.factor = 1
emit.heartbeats.enabled = false
emit.checkpoints.enabled = false
"""
_POLL_S = 0.05
_PATIENCE_S = 300.0
#: So long without another commit is the end.
_QUIET_S = 3.0
#: Of the latency.
_PER_SECOND = 100


def measure(rig: Rig, count: int, rounds: range) -> list[Figure]:
    """Measure records of 100 bytes a second. A pair has the same records, so that its ratio holds for bytes too."""
    with (
        Sandbox.start(jvm=PLAIN_JVM, progress=True) as target,
        Client(ClientConfig.parse({"bootstrap.servers": target.bootstrap_servers})) as client,
    ):
        found = []
        for name, (size, share, least, aim) in _INPUTS.items():
            work, written = f"mirror, batches of {name}", max(int(count * share), 1)
            with _written(rig, f"mirror-{size}", written, size) as topic:
                bench = _Mirrors(rig, target, client, topic, written)
                contenders = [Contender(_OURS, bench.ours), Contender(MIRROR_MAKER, bench.theirs)]
                rates = interleave(work, contenders, rounds, unit="records/s", console=rig.console)
            found.append(ratios(work, MIRROR_MAKER, rates[_OURS], rates[MIRROR_MAKER], target=least, aim=aim))
        return [*found, *_latencies(rig, target, client, rounds)]


def _latencies(rig: Rig, target: Sandbox, client: Client, rounds: range) -> list[Figure]:
    def run(mirror: Callable[[_Mirrors], AbstractContextManager[object]], name: str) -> tuple[float, float]:
        with (
            rig.topic(f"mirror-latency-{name}") as topic,
            writing(rig.servers, topic, _PER_SECOND),
            mirror(_Mirrors(rig, target, client, topic, 0)),
        ):
            return percentiles(target.bootstrap_servers, f"A.{topic}", _PER_SECOND)

    who = {
        _OURS: partial(run, lambda bench: bench.ours_running("A")),
        MIRROR_MAKER: partial(run, lambda bench: bench.theirs_running("A")),
    }
    return compared(rig, f"mirror at {_PER_SECOND} records/s", MIRROR_MAKER, who, rounds)


@contextmanager
def _written(rig: Rig, name: str, count: int, size: int) -> Iterator[str]:
    with rig.topic(name) as topic:
        rig.console.print(f"writing {count:,} records to mirror", style="dim")
        linger = {"linger.ms": "0" if not size else "50"}
        perf_tool.produce(rig.servers, topic, count, rows.SIZE, {"batch.size": str(size), **linger})
        rig.check(topic, count)
        yield topic


class _Mirrors:
    """One topic, and both who copy it: each run to a target topic of its own."""

    def __init__(self, rig: Rig, target: Sandbox, client: Client, topic: str, count: int) -> None:
        self._rig, self._target, self._client, self._topic, self._count = rig, target, client, topic, count

    def ours(self, number: int) -> float:
        (flow,) = read_properties(self._file(f"ours{number}")).flows
        began = time.monotonic()
        Flow(self._rig.spark, flow, threading.Event()).run(once=True)
        seconds = time.monotonic() - began
        self._check(f"ours{number}")
        return self._count / seconds

    def ours_running(self, alias: str) -> AbstractContextManager[None]:
        """Run a mirror until the block is left."""
        (flow,) = read_properties(self._file(alias)).flows
        return working(lambda stop: Flow(self._rig.spark, flow, stop).run())

    @contextmanager
    def theirs_running(self, alias: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run MirrorMaker 2 until the block is left."""
        version = jars.DEFAULT_VERSION
        home = jars.cache_directory() / "mirror-maker" / version
        parts = [("org.apache.kafka", module, version) for module in _MODULES]
        path = [*ivy.kept(home, parts, "MirrorMaker 2", progress=False, whole=True), jars.classpath(version)]
        command = [find_java(), "-Xmx2g", "-cp", os.pathsep.join(map(str, path))]
        command += ["org.apache.kafka.connect.mirror.MirrorMaker", str(self._file(alias))]
        with running(self._rig.directory, command, f"{self._topic}-{alias}") as process:
            yield process

    def theirs(self, number: int) -> float:
        alias = f"theirs{number}"
        with self.theirs_running(alias) as process:
            began, first, first_at, last, changed = time.monotonic(), 0, 0.0, 0, 0.0
            while last < self._count or time.monotonic() - changed < _QUIET_S:
                there, now = self._visible(alias), time.monotonic()
                if there and not first:
                    first, first_at = there, now
                if there != last:  # markers count too: the last change is the end, and what is there is read then
                    last, changed = there, now
                if process.poll() is not None or now - began > _PATIENCE_S:
                    raise Incomplete(f"MirrorMaker 2 has come to offset {last} of {self._count} records")
                time.sleep(_POLL_S)
        self._check(alias)
        return (self._count - first) / (changed - first_at)

    def _file(self, alias: str) -> Path:
        file = self._rig.directory / f"{self._topic}-{alias}.properties"
        servers = {"source": self._rig.servers, "target": self._target.bootstrap_servers}
        file.write_text(_FILE.format(alias=alias, topic=self._topic, **servers))
        return file

    def _visible(self, alias: str) -> int:
        """Return the sum of the last stable offsets, or 0 while the topic does not exist."""
        name = f"{alias}.{self._topic}"
        if name not in self._client.existing({name}):
            return 0
        wanted = {(name, index): LATEST for index in range(PARTITIONS)}
        return sum(row.offset for row in list_offsets(self._client, wanted, read_committed=True).values())

    def _check(self, alias: str) -> None:
        """Raise :class:`Incomplete` unless each record is there once, as a client that is not ours reads them."""
        if (there := arrived(self._target.bootstrap_servers, f"{alias}.{self._topic}")) != self._count:
            raise Incomplete(f"{there} records were copied by {alias}, of {self._count}")
