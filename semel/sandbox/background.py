"""The broker that ``semel broker start`` leaves running: one for each user, found again by a file in the cache folder.

It ends by ``semel broker stop`` or with the machine. Its data are deleted then, unless it has a directory of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from semel.errors import ConfigError
from semel.sandbox.cluster import PLAIN_JVM, Sandbox
from semel.sandbox.jars import cache_directory, chosen_version
from semel.sandbox.processes import command
from semel.sandbox.settings import TWO_PHASE_COMMIT
from semel.strict_json import is_version, of_kind, read_object, write_object

__all__ = ["Background", "start", "status", "stop"]

_PATIENCE_S = 20.0
_POLL_S = 0.05
#: The version of the file that describes the broker, and the types of its fields.
VERSION = 1
_KINDS = {"bootstrap_servers": str, "version": str, "pids": list, "since": str, "directory": str, "keeps_data": bool}


@dataclass(frozen=True, slots=True)
class Background:
    """A broker left running. ``running`` is False if it ended by itself and was not stopped yet."""

    bootstrap_servers: str
    version: str
    pids: list[int]
    since: str
    directory: str
    keeps_data: bool

    @property
    def running(self) -> bool:
        """True if every node of it runs."""
        return all(_is_ours(pid, self.directory) for pid in self.pids)

    def encode(self) -> bytes:
        """Return it as JSON."""
        return write_object({"v": VERSION, **asdict(self)})

    @classmethod
    def decode(cls, text: bytes) -> Background:
        """Read it from JSON. Raise ``ValueError``, ``KeyError`` or ``TypeError`` if the text is not one."""
        value = read_object(text)
        if not is_version(value.get("v", VERSION), VERSION):
            raise ValueError("another version of semel wrote it")
        fields: dict[str, Any] = {name: of_kind(kind, value[name]) for name, kind in _KINDS.items()}
        for pid in fields["pids"]:
            of_kind(int, pid)
        return cls(**fields)


def start(
    *,
    port: int = 9092,
    nodes: int = 1,
    version: str | None = None,
    directory: Path | None = None,
    two_phase_commit: bool = False,
) -> Background:
    """Start the broker on this port and the ones after it, and return when it serves."""
    version = version or chosen_version()
    with _locked() as folder:
        present = _read(folder)
        if present is not None and present.running:
            raise ConfigError(
                f"a broker is already running at {present.bootstrap_servers}. Nothing was started, and no topic was"
                " created. Use it, and create topics with `semel broker topic NAME:PARTITIONS`; or end it by `semel"
                f" broker stop`{'' if present.keeps_data else ', and its data with it'}. A second one beside it needs "
                "another --port, and a SEMEL_CACHE of its own.",
                tag="BROKER_RUNNING",
            )
        if present is not None:
            _end(folder, present)
        home = directory.absolute() if directory else folder / "data"
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)
        ports = range(port, port + nodes)
        jvm = (*PLAIN_JVM, f"-XX:ErrorFile={home}/crash.log")
        # Kafka's own default: it should not surprise users who know Kafka
        settings = {"auto.create.topics.enable": "true", **(TWO_PHASE_COMMIT if two_phase_commit else {})}
        sandbox = Sandbox.start(
            nodes=nodes, version=version, directory=home, ports=ports, settings=settings, jvm=jvm, keep_running=True
        )
        left = Background(
            bootstrap_servers=sandbox.bootstrap_servers,
            version=version,
            pids=[node.pid for node in sandbox.nodes],
            since=datetime.now(UTC).isoformat(timespec="seconds"),
            directory=str(home),
            keeps_data=directory is not None,
        )
        written = folder / "state.new"
        written.write_bytes(left.encode())
        written.rename(folder / "state.json")
        return left


def status() -> Background | None:
    """Return the broker that was left running, or None."""
    return _read(_folder())


def stop() -> Background | None:
    """Stop the broker in order. Return what was stopped, or None if there was none."""
    with _locked() as folder:
        present = _read(folder)
        if present is not None:
            _end(folder, present)
        return present


def _end(folder: Path, broker: Background) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in broker.pids:
            if _is_ours(pid, broker.directory):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        deadline = time.monotonic() + _PATIENCE_S
        while any(_is_ours(pid, broker.directory) for pid in broker.pids) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    if not broker.keeps_data:
        shutil.rmtree(broker.directory, ignore_errors=True)
    (folder / "state.json").unlink(missing_ok=True)


def _is_ours(pid: int, directory: str) -> bool:
    """Return True if the process is the broker of that directory: process ids are reused."""
    line = command(pid)
    return "kafka.Kafka" in line and directory in line


def _folder() -> Path:
    return cache_directory() / "broker"


def _read(folder: Path) -> Background | None:
    path = folder / "state.json"
    try:
        return Background.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} should say which broker was left running, and cannot be read ({error!r:.200}). Nothing was"
            " changed. End that broker by hand, if there is one, and delete the file.",
            tag="BROKER_STATE",
        ) from None


@contextmanager
def _locked() -> Iterator[Path]:
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
