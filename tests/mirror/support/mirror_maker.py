"""Kafka's own MirrorMaker 2: its jars, and what its clients read of what we write."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from semel.sandbox import chosen_version, find_java, ivy
from semel.sandbox.jars import cache_directory, classpath
from tests.connect.support.kafka_connect import jars
from tests.support.waiting import PATIENCE_S

_PARTS = ("connect-mirror", "connect-mirror-client")


def mirror_jars() -> str:
    """Return the class path of MirrorMaker 2's own jars and of Kafka's. They are downloaded the first time."""
    version = chosen_version()
    home = cache_directory() / "connect-mirror" / version
    jars = ivy.kept(
        home, [("org.apache.kafka", name, version) for name in _PARTS], f"MirrorMaker {version}", progress=True
    )
    return os.pathsep.join([*map(str, jars), classpath(version)])


@contextmanager
def java(more: Iterable[Path] = ()) -> Iterator[Any]:
    """Yield a Java of its own with these classes and ``more``, as py4j shows them."""
    port, token = launch_gateway(
        classpath=os.pathsep.join([mirror_jars(), *map(str, more)]),
        die_on_exit=True,
        enable_auth=True,
        javaopts=["-XX:TieredStopAtLevel=1"],
    )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(address="127.0.0.1", port=port, auth_token=token, auto_convert=True)
    )
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()


class MirrorMaker:
    """MirrorMaker 2 in its dedicated mode, as a process of this machine."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self._log = process, log

    def said(self) -> str:
        """Return the end of its log."""
        return self._log.read_text(errors="replace")[-4000:]

    def stop(self) -> None:
        """End it in order: it commits its offsets."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        self._process.send_signal(how)
        self._process.wait(PATIENCE_S)


@contextmanager
def mirror_maker(file: Path) -> Iterator[MirrorMaker]:
    """Run MirrorMaker 2 with a file. It is killed at the end of the block, if it runs still."""
    log = file.with_suffix(".log")
    path = os.pathsep.join([*map(str, jars()), mirror_jars()])
    argv = [str(find_java()), "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp", path]
    argv += ["org.apache.kafka.connect.mirror.MirrorMaker", str(file)]
    with log.open("ab") as output, subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            yield MirrorMaker(process, log)
        finally:
            process.kill()
