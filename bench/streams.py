"""Streams beside Kafka Streams: a count of words over 1,000 keys, exactly-once, one process and one thread each.

Kafka Streams runs the WordCount of its own examples, with its cache and without. Both read the same topic, go through a
repartition topic, keep counts in RocksDB and a changelog, and write them. What is measured is the time between the
first and the last commit of offsets, so that the start of Java or Python does not count.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

import semel
from bench.figures import Figure, ratios
from bench.programs import running
from bench.rig import PARTITIONS, Incomplete, Rig
from bench.rounds import Contender, interleave
from semel.sandbox import ivy, jars
from semel.sandbox.java import find_java
from semel.testing.records import read
from semel.wire.api.offsets import committed

__all__ = ["KAFKA_STREAMS", "measure"]

KAFKA_STREAMS = "Kafka Streams, exactly_once_v2"
_CACHED = f"{KAFKA_STREAMS}, cached"
_OURS = "semel"
_WORK = "streams, count"
_KEYS = 1_000
_CHUNK = 500_000
#: The topics that Kafka's example reads and writes.
_IN, _OUT, _OUR_OUT = "streams-plaintext-input", "streams-wordcount-output", "streams-counts"
_REPARTITION = {_OURS: "counts", KAFKA_STREAMS: "KSTREAM-AGGREGATE-STATE-STORE-0000000003"}
_PARTS = (
    ("org.apache.kafka", "kafka-streams", jars.DEFAULT_VERSION),
    ("org.apache.kafka", "kafka-streams-examples", jars.DEFAULT_VERSION),
    ("org.rocksdb", "rocksdbjni", "10.1.3"),
)
_DEMO = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
_POLL_S = 0.02
#: So long without another commit is the end.
_QUIET_S = 3.0
_PATIENCE_S = 600.0
_APP = """
import pyarrow as pa
import pyarrow.compute as pc
from semel.streams import App


def split(batch):
    words = pc.split_pattern_regex(pc.utf8_lower(batch["value"]), r"\\W+")
    parents = pc.list_parent_indices(words)
    return pa.table({{"word": pc.list_flatten(words), "timestamp": batch["timestamp"].take(parents)}})


app = App({name!r}, **{{"bootstrap.servers": {servers!r}, "state.dir": {state!r}}})
app.stream({source!r}, value="string").map_batches(split).group_by("word").count("counts").to_stream().to({target!r})
"""


def measure(rig: Rig, count: int, rounds: range) -> list[Figure]:
    """Records of the input that are counted in a second."""
    with rig.topic(_IN), rig.topic(_OUT), rig.topic(_OUR_OUT):
        _fill(rig, count)
        contenders = [
            Contender(_OURS, lambda number: _ours(rig, number, count)),
            Contender(KAFKA_STREAMS, lambda number: _theirs(rig, number, count, cache=0)),
            Contender(_CACHED, lambda number: _theirs(rig, number, count, cache=10 << 20)),
        ]
        rates = interleave(_WORK, contenders, rounds, unit="records/s", console=rig.console)
    return [
        ratios(_WORK, KAFKA_STREAMS, rates[_OURS], rates[KAFKA_STREAMS], target=0.7, aim=2.0),
        ratios(_WORK, _CACHED, rates[_OURS], rates[_CACHED], target=0.7, aim=2.0),
    ]


def _fill(rig: Rig, count: int) -> None:
    chance = np.random.default_rng(1)
    with (
        semel.Cluster({"bootstrap.servers": rig.servers}) as cluster,
        cluster.producer("streams-bench") as producer,
    ):
        for first in range(0, count, _CHUNK):
            keys = chance.integers(0, _KEYS, min(_CHUNK, count - first))
            words = pa.array([f"key{number}" for number in range(_KEYS)]).take(pa.array(keys))
            with producer.transaction() as txn:
                txn.send(_IN, pa.table({"value": words, "partition": pa.array(keys % PARTITIONS, pa.int32())}))


def _ours(rig: Rig, number: int, count: int) -> float:
    name = f"bench-streams-semel-{number}"
    file = rig.directory / f"{name}.py"
    state = str(rig.directory / "state")
    file.write_text(_APP.format(name=name, servers=rig.servers, state=state, source=_IN, target=_OUR_OUT))
    command = [sys.executable, "-c", "from semel.cli import main; main()", "streams", "run", str(file)]
    rate = _run(rig, command, name, _REPARTITION[_OURS], count)
    found = read(rig.servers, [_OUR_OUT], {"key": "key", "value": "value"})
    last = dict(zip(found["key"].to_pylist(), map(int, found["value"].to_pylist()), strict=True))
    if sum(last.values()) != count:
        raise Incomplete(f"semel counted {sum(last.values())} of {count} records")
    return rate


def _theirs(rig: Rig, number: int, count: int, *, cache: int) -> float:
    name = f"bench-streams-java-{cache}-{number}"
    file = rig.directory / f"{name}.properties"
    properties = {
        "application.id": name,
        "bootstrap.servers": rig.servers,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": str(rig.directory / "state"),
        "statestore.cache.max.bytes": str(cache),
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    home = jars.cache_directory() / "kafka-streams" / jars.DEFAULT_VERSION
    parts = [*ivy.kept(home, _PARTS, "Kafka Streams", progress=False), jars.classpath(jars.DEFAULT_VERSION)]
    command = [find_java(), "-Xmx2g", "-cp", ":".join(map(str, parts)), _DEMO, str(file)]
    return _run(rig, command, name, _REPARTITION[KAFKA_STREAMS], count)


def _run(rig: Rig, command: Sequence[str], group: str, repartition: str, count: int) -> float:
    with running(rig.directory, command, group) as process:
        topics = {_IN: count, f"{group}-{repartition}-repartition": 0}
        began, first, last, changed = time.monotonic(), -1, 0, 0.0
        began_at = 0.0
        while True:
            now = time.monotonic()
            stands = committed(
                rig.client, group, [(topic, at) for topic in topics for at in range(PARTITIONS)], require_stable=False
            )
            read_in = sum(at for (topic, _), at in stands.items() if topic == _IN)
            total = sum(stands.values())
            if first < 0 and total:
                first, began_at = read_in, now
            if total != last:
                last, changed = total, now
            if read_in >= count and now - changed > _QUIET_S:
                return (count - first) / (changed - began_at)
            if process.poll() is not None or now - began > _PATIENCE_S:
                raise Incomplete(f"{group} read {read_in} of {count} records")
            time.sleep(_POLL_S)
