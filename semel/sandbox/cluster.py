"""A Kafka cluster of one or more nodes on this machine: started from nothing, and removed again.

``Sandbox.start()`` fetches Kafka if it is not in the cache yet, formats the directories, and starts the nodes on ports
of 127.0.0.1. It returns when every node answers and knows all the others. Every node ends with the process that started
it, in any case, unless ``keep_running`` is set.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from semel.errors import ConfigError
from semel.sandbox import class_archive, jars, settings, watchdog
from semel.sandbox.java import find_java
from semel.sandbox.node import Node
from semel.sandbox.ports import Ports, is_free
from semel.sandbox.security import LISTENERS, Secured

__all__ = ["FAST_JVM", "PLAIN_JVM", "Sandbox"]

#: Small and quickly started, for tests: no second compiler, one thread that collects garbage.
FAST_JVM = ("-Xms128m", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
#: Java options of a broker that is measured.
PLAIN_JVM = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true")

_START_TRIES = 4
_STOP_S = 20.0
_TAKEN = "Address already in use"


class Sandbox:
    """A running cluster, made by :meth:`start`. As a context manager it stops at the end."""

    def __init__(self, *, directory: Path, cluster_id: str, version: str, ports: Ports) -> None:
        self.nodes: list[Node] = []
        self.directory = directory
        self.cluster_id = cluster_id
        self.version = version
        self._ports = ports
        self._owner = os.getpid()
        self._remover: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(
        cls,
        *,
        nodes: int = 1,
        version: str | None = None,
        directory: Path | None = None,
        ports: Sequence[int] | None = None,
        settings: Mapping[str, str] = {},
        features: Mapping[str, int] = {},
        secured: Secured | None = None,
        jvm: Sequence[str] | None = None,
        keep_running: bool = False,
        progress: bool = False,
        timeout: float = 120.0,
    ) -> Sandbox:
        """Start a cluster and wait until it serves.

        ``version`` is Kafka's; the default is the variable ``SEMEL_KAFKA_VERSION``, then the built-in version.
        ``directory`` keeps the data, and a second start finds them; without it they are deleted with the cluster.
        ``ports`` are the brokers' own, one a node; without them free ones are chosen. ``settings`` are broker
        properties. ``features`` are levels such as ``{"transaction.version": 1}`` for a new directory. ``secured`` adds
        listeners with TLS and SASL. ``jvm`` are the options of Java; the default is a quick start. ``keep_running``
        leaves the nodes running when this process ends.
        """
        if nodes < 1 or (ports is not None and len(ports) != nodes):
            raise ConfigError(
                f"{nodes} nodes need {max(nodes, 1)} ports, not {list(ports or [])}. Nothing was started.",
                tag="WRONG_VALUE",
            )
        if keep_running and directory is None:
            raise ConfigError(
                "a broker that is kept running needs a directory of its own. Nothing was started.",
                tag="SANDBOX_DIRECTORY",
            )
        version = version or jars.chosen_version()
        jvm = (*FAST_JVM, *class_archive.reading(version)) if jvm is None else jvm
        plan = _Plan(nodes, version, directory, ports, settings, features, secured, jvm, keep_running)
        java, formatted = find_java(), plan.prepare(progress=progress)
        for attempt in range(1, _START_TRIES + 1):
            sandbox = plan.lay_out(java, formatted)
            try:
                sandbox._come_up(timeout)
            except BaseException as error:
                sandbox.stop(now=True)
                unlucky = isinstance(error, ConfigError) and _TAKEN in error.message
                if not unlucky or attempt == _START_TRIES:
                    raise
            else:
                return sandbox
        raise AssertionError("the last try returns or raises")

    @property
    def bootstrap_servers(self) -> str:
        """The plain listeners of all nodes, as ``host:port,host:port``."""
        return self.servers("PLAINTEXT")

    def servers(self, protocol: str) -> str:
        """Return the listeners with this security protocol, for a cluster that was started ``secured``."""
        return ",".join(f"127.0.0.1:{node.ports[protocol]}" for node in self.nodes)

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Wait until every running node answers and knows all other running nodes."""
        deadline = time.monotonic() + timeout
        running = [node for node in self.nodes if node.running]
        for node in running:
            node.wait_ready(max(deadline - time.monotonic(), 1.0), nodes=len(running))

    def stop(self, *, now: bool = False) -> None:
        """End all nodes: in order if their data are kept, by SIGKILL if the data are deleted too, or with ``now``.

        A second call, or a call in a forked child, does nothing.
        """
        if os.getpid() != self._owner:
            return
        for node in self.nodes:
            node.stop(timeout=0 if now or self._remover is not None else _STOP_S)
        self._ports.release()
        if self._remover is not None and self._remover.stdin is not None:
            self._remover.stdin.close()
            self._remover.wait()
        self._remover = None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _come_up(self, timeout: float) -> None:
        for node in self.nodes:
            node.start()
        self.wait_ready(timeout)

    def _remove_at_the_end(self) -> None:
        command = [sys.executable, "-I", "-S", watchdog.__file__, str(os.getpid()), "--remove", str(self.directory)]
        self._remover = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


class _Plan:
    """The arguments of a start, turned into directories and commands."""

    def __init__(
        self,
        nodes: int,
        version: str,
        directory: Path | None,
        ports: Sequence[int] | None,
        extra: Mapping[str, str],
        features: Mapping[str, int],
        secured: Secured | None,
        jvm: Sequence[str],
        keep_running: bool,
    ) -> None:
        self._nodes = nodes
        self._version = version
        self._directory = directory
        self._given_ports = ports
        self._extra = extra
        self._features = features
        self._protocols = LISTENERS if secured is not None else ()
        if secured is not None:
            self._extra = {**secured.broker_settings(), **extra}
        self._jvm = jvm
        self._keep_running = keep_running
        self._class_path = ""

    def prepare(self, *, progress: bool) -> dict[str, bytes]:
        """Fetch the jars, and return the files of a new directory."""
        self._class_path = jars.classpath(self._version, progress=progress)
        return jars.formatted(self._version, self._features)

    def lay_out(self, java: str, formatted: Mapping[str, bytes]) -> Sandbox:
        """Choose ports and write every node's directory."""
        chosen = self._choose_ports()
        directory = self._directory.absolute() if self._directory else Path(tempfile.mkdtemp(prefix="semel-kafka-"))
        controllers = {node_id: chosen.numbers[node_id - 1] for node_id in range(1, self._nodes + 1)}
        others = iter(chosen.numbers[self._nodes :])
        brokers = (
            list(self._given_ports) if self._given_ports is not None else [next(others) for _ in range(self._nodes)]
        )
        cluster_id = self._stored_cluster_id(directory) or settings.new_cluster_id()
        sandbox = Sandbox(directory=directory, cluster_id=cluster_id, version=self._version, ports=chosen)
        if self._directory is None:
            sandbox._remove_at_the_end()
        for node_id, port in enumerate(brokers, start=1):
            home = directory / f"node-{node_id}"
            ports = {"PLAINTEXT": port, **{protocol: next(others) for protocol in self._protocols}}
            self._write(home, node_id, ports, controllers, cluster_id, formatted)
            command = [
                java,
                *self._jvm,
                f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}",
                "-cp",
                self._class_path,
            ]
            command += ["kafka.Kafka", str(home / "server.properties")]
            sandbox.nodes.append(
                Node(
                    node_id=node_id,
                    ports=ports,
                    directory=home,
                    command=command,
                    cluster_id=cluster_id,
                    guarded=not self._keep_running,
                )
            )
        return sandbox

    def _choose_ports(self) -> Ports:
        wrong = [port for port in self._given_ports or () if not 0 < port < 65536]
        if wrong:
            raise ConfigError(f"{', '.join(map(str, wrong))} is no port. Nothing was started.", tag="WRONG_VALUE")
        taken = [port for port in self._given_ports or () if not is_free(port)]
        if taken:
            raise ConfigError(
                f"port {', '.join(map(str, taken))} of 127.0.0.1 is taken by another process. Nothing was started."
                " Stop that process, or give another port.",
                tag="PORT_TAKEN",
            )
        return Ports(self._nodes * (1 + (self._given_ports is None) + len(self._protocols)))

    def _write(
        self,
        home: Path,
        node_id: int,
        ports: Mapping[str, int],
        controllers: Mapping[int, int],
        cluster_id: str,
        formatted: Mapping[str, bytes],
    ) -> None:
        data = home / "data"
        data.mkdir(parents=True, exist_ok=True)
        node = settings.server_properties(
            node_id=node_id, ports=ports, controllers=controllers, data=data, settings=self._extra
        )
        (home / "server.properties").write_text(settings.properties_text(node))
        (home / "log4j2.properties").write_text(settings.LOG4J)
        if not (data / settings.META).exists():
            for name, content in formatted.items():
                (data / name).parent.mkdir(exist_ok=True)
                (data / name).write_bytes(content)
            (data / settings.META).write_text(settings.meta_properties(node_id, cluster_id))

    def _stored_cluster_id(self, directory: Path) -> str | None:
        """Return the id of the cluster whose data the directory holds.

        It must have the requested number of nodes: the quorum is fixed.
        """
        meta_files = sorted(directory.glob(f"node-*/data/{settings.META}"))
        if not meta_files:
            return None
        if len(meta_files) != self._nodes:
            raise ConfigError(
                f"{directory} holds the data of {len(meta_files)} nodes, and {self._nodes} were asked for. Nothing was"
                f" started, nothing was changed. Ask for {len(meta_files)}, or give another directory.",
                tag="SANDBOX_DIRECTORY",
            )
        return settings.parse_properties(meta_files[0].read_text())["cluster.id"]
