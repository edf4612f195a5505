"""Kafka's own jars, in the user's cache (DESIGN section 9).

They are resolved from Maven Central once per version, by ``ivy``, and used from the cache from then on, without a
network. Versions of one call fetch their common files once. Every file is checked before each use against
``manifest.sha256`` (as ``sha256sum`` writes it). Damaged files are named and fetched again. A version appears in the
cache by one rename, under a lock, so any number of processes may fill it at once.

Environment: ``SEMEL_KAFKA_VERSION``, the default version; ``SEMEL_CACHE`` (else ``XDG_CACHE_HOME/semel``, else
``~/.cache/semel``); the variables of ``ivy``.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from semel.errors import ConfigError
from semel.sandbox import ivy, settings
from semel.sandbox.java import find_java

__all__ = [
    "DEFAULT_VERSION",
    "VERSION_VARIABLE",
    "cache_directory",
    "chosen_version",
    "classpath",
    "formatted",
    "install",
    "install_all",
]

DEFAULT_VERSION = "4.3.1"
VERSION_VARIABLE = "SEMEL_KAFKA_VERSION"

_MANIFEST = "manifest.sha256"
_FORMATTED = "formatted"

log = logging.getLogger("semel.sandbox")


def cache_directory() -> Path:
    """Return the folder of everything that semel fetches for this user."""
    folder = os.environ.get("SEMEL_CACHE")
    if folder:
        return Path(folder).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "semel"


def chosen_version() -> str:
    """Return the version to use if none is named."""
    return os.environ.get(VERSION_VARIABLE) or DEFAULT_VERSION


def classpath(version: str, *, progress: bool = False) -> str:
    """Return the class path of one version of Kafka, fetched the first time: the broker, and the tools, which 4.4.0
    lacks.
    """
    return _joined(install(version, progress=progress))


def install(version: str, *, progress: bool = False) -> Path:
    """Return the folder of one version in the cache, complete and checked. It is filled first if it does not exist."""
    (home,) = install_all([version], progress=progress)
    return home


def install_all(versions: Sequence[str], *, progress: bool = False) -> list[Path]:
    """Return the folder of each version, as :func:`install`."""
    wrong = [version for version in versions if not re.fullmatch(r"\d+\.\d+\.\d+", version)]
    if wrong:
        raise ConfigError(
            f"{wrong[0]!r} is no version of Kafka, such as {DEFAULT_VERSION}. Nothing was fetched.", tag="WRONG_VALUE"
        )
    homes = [cache_directory() / "kafka" / version for version in versions]
    fetched = [_fetched(home, version, progress=progress) for home, version in zip(homes, versions, strict=True)]
    if any(fetched):
        with _locked(homes[0].parent):
            # Ivy's own cache serves the next version of the same call, and a retry after an interruption
            shutil.rmtree(cache_directory() / "ivy", ignore_errors=True)
    return homes


def _fetched(home: Path, version: str, *, progress: bool) -> bool:
    """Fill the folder unless it is complete and undamaged. Return True if it had to be filled."""
    if home.exists() and _damage(home) is None:
        return False
    with _locked(home.parent):
        damage = _damage(home) if home.exists() else None
        if damage is not None:
            log.warning("%s in %s; it is fetched again", damage, home)
        if damage is None and home.exists():
            return False
        _fill(home, version, progress=progress, damage=damage)
    return True


def formatted(version: str, features: Mapping[str, int]) -> dict[str, bytes]:
    """Return the files of a freshly formatted node. ``features`` are the levels that are not the newest.

    They are the same for every node. Kafka's storage tool makes them once a version, since it takes as long as the
    start of a broker.
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
    """Return the first difference of the folder from its manifest, or None."""
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
            raise ConfigError(
                f"in {home}, {damage}, and it could not be fetched again: {error.message}", tag="JARS_DAMAGED"
            ) from error
        _format(_joined(staged), folder, {})
        (folder / _FORMATTED).rename(staged / _FORMATTED)
        lines = (f"{_sha256(path)}  {path.relative_to(staged).as_posix()}\n" for path in _content(staged))
        (staged / _MANIFEST).write_text("".join(lines))
        if home.exists():
            home.rename(folder / "damaged")
        staged.rename(home)


def _files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _format(jars: str, folder: Path, features: Mapping[str, int]) -> None:
    """Run Kafka's storage tool to format a directory, and remove the file that names its node."""
    data, properties = folder / _FORMATTED, folder / "server.properties"
    node = settings.server_properties(node_id=1, ports={"PLAINTEXT": 1}, controllers={1: 2}, data=data, settings={})
    properties.write_text(settings.properties_text(node))
    levels = [option for name, level in features.items() for option in ("--feature", f"{name}={level}")]
    tool = [find_java(), "-XX:TieredStopAtLevel=1", "-cp", jars, "kafka.tools.StorageTool", "format"]
    command = [*tool, "--cluster-id", settings.new_cluster_id(), "--config", str(properties), *levels]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(
            "Kafka's storage tool did not format a directory. No broker was started. It said:"
            f" {(done.stdout + done.stderr)[-1500:].strip()}",
            tag="SANDBOX_FORMAT",
        )
    (data / settings.META).unlink()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
