"""The same count by semel and by Kafka Streams, each in a process of its own: by value, behind a repartition topic."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path

from bench import programs
from bench.rig import Incomplete, Rig
from semel.sandbox import ivy, jars
from semel.sandbox.java import find_java

__all__ = ["CACHED", "KAFKA_STREAMS", "OURS", "REPARTITION", "running"]

OURS = "semel"
KAFKA_STREAMS = "Kafka Streams, exactly_once_v2"
CACHED = f"{KAFKA_STREAMS}, cached"
#: Behind the name of an application: its repartition topic.
REPARTITION = "counts-repartition"
_CACHES = {KAFKA_STREAMS: 0, CACHED: 10 << 20}
_PARTS = (
    ("org.apache.kafka", "kafka-streams", jars.DEFAULT_VERSION),
    ("org.rocksdb", "rocksdbjni", "10.1.3"),
)
_SOURCE = Path(__file__).parent / "Count.java"
_APP = """
from semel.streams import App

app = App({name!r}, **{{"bootstrap.servers": {servers!r}, "state.dir": {state!r}}})
app.stream({source!r}, value="string").group_by("value").count("counts").to_stream().to({target!r})
"""


def running(rig: Rig, who: str, name: str, source: str, target: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Run the application ``name`` of one side, from ``source`` to ``target``, until the end of the context."""
    state = str(rig.directory / "state")
    if who == OURS:
        file = rig.directory / f"{name}.py"
        file.write_text(_APP.format(name=name, servers=rig.servers, state=state, source=source, target=target))
        command = [sys.executable, "-c", "from semel.cli import main; main()", "streams", "run", str(file)]
    else:
        file = rig.directory / f"{name}.properties"
        properties = {
            "application.id": name,
            "bootstrap.servers": rig.servers,
            "processing.guarantee": "exactly_once_v2",
            "state.dir": state,
            "statestore.cache.max.bytes": str(_CACHES[who]),
        }
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        command = [find_java(), "-Xmx2g", "-cp", _compiled(rig.directory), "Count", str(file), source, target]
    return programs.running(rig.directory, command, name)


@lru_cache(maxsize=1)
def _compiled(directory: Path) -> str:
    """Return the class path of Kafka Streams and of the count, which is compiled once."""
    compiler = Path(find_java()).parent / "javac"
    if not compiler.exists():
        raise Incomplete(f"there is no {compiler}: to measure Kafka Streams' count takes a JDK")
    home = jars.cache_directory() / "kafka-streams" / jars.DEFAULT_VERSION
    parts = [*ivy.kept(home, _PARTS, "Kafka Streams", progress=False), jars.classpath(jars.DEFAULT_VERSION)]
    path = ":".join(map(str, parts))
    subprocess.run([compiler, "-cp", path, "-d", directory, _SOURCE], check=True, capture_output=True)
    return f"{directory}:{path}"
