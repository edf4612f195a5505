"""Kafka's own jars, in the user's cache (DESIGN section 9).

They are resolved from Maven Central once per version, by ``ivy``, and used from the cache ever after: no network then. Beside them stands
``manifest.sha256`` (as ``sha256sum`` writes it), against which every file is checked before each use: what is damaged is named and fetched
anew. A version appears in the cache by one rename, under a lock, so that any number of processes may fill it at once.

Environment: ``SEMEL_CACHE`` (else ``XDG_CACHE_HOME/semel``, else ``~/.cache/semel``); those of ``ivy``.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from semel.errors import ConfigError
from semel.sandbox import ivy, settings
from semel.sandbox.java import find_java

__all__ = ["DEFAULT_VERSION", "cache_directory", "classpath", "formatted", "install"]

DEFAULT_VERSION = "4.3.1"

_MANIFEST = "manifest.sha256"
_FORMATTED = "formatted"

log = logging.getLogger("semel.sandbox")


def cache_directory() -> Path:
    """Where semel keeps what it fetched for this user."""
    given = os.environ.get("SEMEL_CACHE")
    if given:
        return Path(given).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "semel"


def classpath(version: str = DEFAULT_VERSION, *, progress: bool = False) -> str:
    """The class path of one version of Kafka, fetched the first time: the broker, and the tools, which 4.4.0 lacks."""
    return _joined(install(version, progress=progress))


def install(version: str = DEFAULT_VERSION, *, progress: bool = False) -> Path:
    """The folder of one version in the cache, complete and checked; filled first where it is not there yet."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ConfigError(f"{version!r} is no version of Kafka, such as {DEFAULT_VERSION}. Nothing was fetched.", tag="KAFKA_VERSION")
    home = cache_directory() / "kafka" / version
    damage = _damage(home) if home.exists() else None
    if home.exists() and damage is None:
        return home
    with _locked(home.parent):
        damage = _damage(home) if home.exists() else None
        if damage is not None:
            log.warning("%s in %s; it is fetched again", damage, home)
        if damage is not None or not home.exists():
            _fill(home, version, progress=progress, damage=damage)
    return home


def formatted(version: str, features: Mapping[str, int]) -> dict[str, bytes]:
    """What a freshly formatted node starts from, file by file; ``features`` are the levels that are not to be the newest.

    It is the same for every node: Kafka's storage tool makes it once a version, since it takes as long as a broker does to start.
    """
    home = install(version)
    if not features:
        return _files(home / _FORMATTED)
    with ivy.scratch(home.parent) as folder:
        _format(_joined(home), folder, features)
        return _files(folder / _FORMATTED)


def _joined(home: Path) -> str:
    return os.pathsep.join(str(jar) for jar in sorted((home / "jars").glob("*.jar")))


def _damage(home: Path) -> str | None:
    """The first thing in which the folder differs from its manifest; None when all is well."""
    manifest = home / _MANIFEST
    if not manifest.is_file():
        return f"{_MANIFEST} is missing"
    lines = (line.partition("  ") for line in manifest.read_text().splitlines())
    listed = {name: checksum for checksum, _, name in lines}
    present = {path.relative_to(home).as_posix(): path for path in _content(home)}
    if set(listed) != set(present):
        return f"{', '.join(sorted(set(listed) ^ set(present)))} is missing or does not belong"
    for name, path in present.items():
        if _sha256(path) != listed[name]:
            return f"{name} does not have the checksum that was noted when it was fetched"
    return None


def _content(home: Path) -> list[Path]:
    return sorted(path for path in home.rglob("*") if path.is_file() and path.name != _MANIFEST)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fill(home: Path, version: str, *, progress: bool, damage: str | None) -> None:
    with ivy.scratch(home.parent) as folder:
        staged = folder / version
        staged.mkdir()
        try:
            ivy.resolve(version, staged / "jars", cache=cache_directory() / "ivy", progress=progress)
        except ConfigError as error:
            if damage is None:
                raise
            raise ConfigError(f"in {home}, {damage}, and it could not be fetched again: {error.message}", tag="JARS_DAMAGED") from error
        _format(_joined(staged), folder, {})
        (folder / _FORMATTED).rename(staged / _FORMATTED)
        lines = (f"{_sha256(path)}  {path.relative_to(staged).as_posix()}\n" for path in _content(staged))
        (staged / _MANIFEST).write_text("".join(lines))
        if home.exists():
            home.rename(folder / "damaged")
        staged.rename(home)
    # What Ivy keeps beside the jars serves only to go on after an interruption.
    shutil.rmtree(cache_directory() / "ivy", ignore_errors=True)


def _files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _format(jars: str, folder: Path, features: Mapping[str, int]) -> None:
    """Let Kafka's storage tool format a directory, and take away what names its node."""
    data, properties = folder / _FORMATTED, folder / "server.properties"
    node = settings.server_properties(node_id=1, ports={"PLAINTEXT": 1}, controllers={1: 2}, data=data, settings={})
    properties.write_text(settings.properties_text(node))
    levels = [option for name, level in features.items() for option in ("--feature", f"{name}={level}")]
    tool = [find_java(), "-XX:TieredStopAtLevel=1", "-cp", jars, "kafka.tools.StorageTool", "format"]
    command = [*tool, "--cluster-id", settings.new_cluster_id(), "--config", str(properties), *levels]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(
            f"Kafka's storage tool did not format a directory. No broker was started. It said: {(done.stdout + done.stderr)[-1500:].strip()}",
            tag="SANDBOX_FORMAT",
        )
    (data / settings.META).unlink()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
