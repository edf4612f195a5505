"""Kafka's own MirrorMaker 2: its jars, and what its clients read of what we write."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from semel.sandbox import chosen_version, ivy
from semel.sandbox.jars import cache_directory, classpath

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
