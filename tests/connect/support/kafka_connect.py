"""Kafka's own Connect in distributed mode, as a process of this machine: the one to be compatible with."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from semel.sandbox import chosen_version, find_java, ivy
from semel.sandbox.jars import cache_directory
from semel.sandbox.ports import Ports
from tests.support.waiting import wait_for

_PARTS = ("connect-runtime", "connect-file")


def jars() -> list[Path]:
    """Its jars with all that they need, fetched the first time."""
    version = chosen_version()
    home = cache_directory() / "connect" / version
    if not home.exists():
        lines = "".join(
            f'<dependency org="org.apache.kafka" name="{name}" rev="{version}" conf="default->default,runtime"/>'
            for name in _PARTS
        )
        module = '<ivy-module version="2.0"><info organisation="semel" module="connect"/><dependencies>'
        home.parent.mkdir(parents=True, exist_ok=True)
        with ivy.scratch(home.parent) as folder:
            wanted = f"{module}{lines}</dependencies></ivy-module>"
            ivy.retrieve(wanted, f"Kafka Connect {version}", folder / "jars", cache=folder / "ivy", progress=True)
            with suppress(OSError):  # another process was first
                (folder / "jars").rename(home)
    return sorted(home.glob("*.jar"))


class KafkaConnect:
    """A worker that answers."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Ask its REST interface."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(
            f"{self.address}{path}", data=data, method=method, headers={"Content-Type": "application/json"}
        )
        with urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None


@contextmanager
def kafka_connect(
    worker: Mapping[str, str], folder: Path, *, jvm: Sequence[str] = ("-XX:TieredStopAtLevel=1",)
) -> Iterator[KafkaConnect]:
    """Run it with these properties, and with topics of its own for connectors and states."""
    folder.mkdir()
    ports = Ports(1)
    port = ports.numbers[0]
    ports.release()
    more = {
        "config.storage.topic": f"{worker['group.id']}-configs",
        "status.storage.topic": f"{worker['group.id']}-status",
        **dict.fromkeys((f"{kind}.storage.replication.factor" for kind in ("config", "offset", "status")), "1"),
        "listeners": f"http://127.0.0.1:{port}",
    }
    properties = folder / "worker.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in {**worker, **more}.items()))
    argv = [
        str(find_java()),
        *jvm,
        "-cp",
        os.pathsep.join(map(str, jars())),
        "org.apache.kafka.connect.cli.ConnectDistributed",
        str(properties),
    ]
    log = folder / "log"
    with log.open("wb") as output, subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            made = KafkaConnect(f"http://127.0.0.1:{port}")
            wait_for(lambda: _answers(made, process), lambda: log.read_text()[-4000:], 120)
            yield made
        finally:
            process.terminate()
            process.wait(60)


def _answers(connect: KafkaConnect, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "it ended"
    try:
        return "version" in connect.ask("GET", "/")
    except (URLError, OSError):
        return False
