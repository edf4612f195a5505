"""Kafka's jars from a Maven repository, resolved by the Ivy jar that PySpark ships (DESIGN section 9).

Environment: ``SEMEL_MAVEN``, the root of another Maven repository than Maven Central; ``SEMEL_IVY_SETTINGS``, an Ivy
settings file, for a mirror that needs more than an address; ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY``, which
Java does not read by itself; ``JAVA_TOOL_OPTIONS``, which it does. Ivy checks the repository's checksums.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from semel.errors import ConfigError
from semel.sandbox.java import find_java

__all__ = ["kept", "resolve", "retrieve", "scratch"]

#: Kafka depends on log4j's core, but not on the binding that sends its own logging there.
_LOG4J = "2.25.4"


@contextmanager
def scratch(beside: Path) -> Iterator[Path]:
    """Make a folder on the same file system, so that its content can be renamed into place. It is removed at the
    end.
    """
    beside.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".new-", dir=beside))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def resolve(version: str, into: Path, *, cache: Path, progress: bool) -> None:
    """Put the jars of this version of Kafka into the folder. It takes half a minute and a network."""
    retrieve(_module(version), f"Apache Kafka {version}", into, cache=cache, progress=progress)


def retrieve(
    wanted: str, name: str, into: Path, *, cache: Path, progress: bool, types: Sequence[str] = ("jar", "bundle")
) -> None:
    """Put the jars that an Ivy module (XML) depends on into the folder, or its files of other ``types``.

    ``name`` is their name in messages.
    """
    cache.mkdir(parents=True, exist_ok=True)
    module, configuration = cache / "semel-ivy.xml", cache / "semel-ivysettings.xml"
    module.write_text(wanted)
    command = [
        find_java(),
        *_proxies(),
        "-jar",
        str(_ivy_jar()),
        "-ivy",
        str(module),
        "-cache",
        str(cache),
        "-confs",
        "default",
    ]
    own = os.environ.get("SEMEL_IVY_SETTINGS")
    mirror = os.environ.get("SEMEL_MAVEN")
    if own:
        command += ["-settings", own]
    elif mirror:
        configuration.write_text(_settings(mirror))
        command += ["-settings", str(configuration)]
    command += ["-types", *types, "-retrieve", str(into / "[artifact]-[revision](-[classifier]).[ext]")]
    _run(command, name, progress=progress)


def kept(
    home: Path, parts: Sequence[tuple[str, str, str]], name: str, *, progress: bool, whole: bool = False
) -> list[Path]:
    """Return the jars of these modules (organisation, name, version), in a folder that is filled the first time. With
    ``whole`` their dependencies come too.
    """
    if not home.exists():
        how = 'conf="default->default,runtime"' if whole else 'conf="default->default" transitive="false"'
        lines = "".join(
            f'<dependency org="{organisation}" name="{module}" rev="{version}" {how}/>'
            for organisation, module, version in parts
        )
        wanted = (
            '<ivy-module version="2.0"><info organisation="semel"'
            f' module="kept"/><dependencies>{lines}</dependencies></ivy-module>'
        )
        with scratch(home.parent) as folder:
            retrieve(wanted, name, folder / "jars", cache=folder / "ivy", progress=progress)
            (folder / "jars").rename(home)
    return sorted(home.glob("*.jar"))


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else None
    jars = sorted(folder.glob("ivy-*.jar")) if folder else []
    if not jars:
        raise ConfigError(
            "PySpark is not installed, and the Ivy jar in it is what fetches Kafka. Nothing was fetched. Run, in"
            " semel's checkout: pip install '.[spark]'",
            tag="IVY_MISSING",
        )
    return jars[-1]


def _module(version: str) -> str:
    whole = ' conf="default->default,runtime"'
    alone = ' conf="default->default" transitive="false"'
    wanted = [
        ("org.apache.kafka", "kafka_2.13", version, whole),
        ("org.apache.logging.log4j", "log4j-slf4j-impl", _LOG4J, whole),
    ]
    exclude = ""
    if tuple(int(part) for part in version.split(".")) >= (4, 4):
        # 4.4.0 names this module, but neither it nor the tools are published.
        exclude = '<exclude org="org.apache.kafka" module="kafka-tools-api"/>'
    else:
        # without dependencies: the Connect runtime and a web server, which the tools used here never load
        wanted += [("org.apache.kafka", name, version, alone) for name in ("kafka-tools", "kafka-tools-api")]
    lines = "".join(f'<dependency org="{org}" name="{name}" rev="{rev}"{conf}/>' for org, name, rev, conf in wanted)
    return (
        '<ivy-module version="2.0"><info organisation="semel"'
        f' module="sandbox"/><dependencies>{lines}{exclude}</dependencies></ivy-module>'
    )


def _settings(mirror: str) -> str:
    return (
        '<ivysettings><settings defaultResolver="mirror"/><resolvers>'
        f'<ibiblio name="mirror" m2compatible="true" root={quoteattr(mirror)}/></resolvers></ivysettings>'
    )


def _proxies() -> list[str]:
    """Return the proxies of the environment as Java options."""
    options: list[str] = []
    for scheme in ("http", "https"):
        proxy = urlsplit(os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme.upper()}_PROXY") or "")
        if proxy.hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
    passed_by = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    hosts = [f"*{host}" if host.startswith(".") else host for host in re.split(r"[,\s]+", passed_by) if host]
    return [*options, f"-Dhttp.nonProxyHosts={'|'.join(hosts)}"] if options and hosts else options


def _run(command: list[str], name: str, *, progress: bool) -> None:
    last: deque[str] = deque(maxlen=400)
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with process, _Shown(name, visible=progress) as shown:
        try:
            for line in process.stdout or ():
                last.append(line)
                shown.saw(line)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise ConfigError(
            f"{name} could not be fetched. Nothing was started, and no data was touched. It comes from Maven Central,"
            " or from the Maven repository that SEMEL_MAVEN names; the network is needed for the first time only."
            f" {_reasons(last)}",
            tag="JARS_UNREACHABLE",
        )


def _reasons(lines: deque[str]) -> str:
    telling = [
        line.strip()
        for line in lines
        if re.search(r"not found|UNRESOLVED|exception|refused|timed? ?out|unknown host", line, re.IGNORECASE)
    ]
    return "Ivy said:\n  " + "\n  ".join((telling or [line.strip() for line in lines])[:12])


class _Shown:
    """Progress of a download: a bar on a terminal, else a line now and then. First modules are found, then their jars
    are downloaded.
    """

    def __init__(self, name: str, *, visible: bool) -> None:
        self._console = Console(stderr=True, quiet=not visible)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=self._console, disable=not (visible and self._console.is_terminal))
        self._task = self._bar.add_task(f"{name}: looking for its parts", total=None)
        self._name = name
        self._found = self._fetched = 0

    def __enter__(self) -> _Shown:
        self._bar.start()
        if not self._console.is_terminal:
            self._console.print(f"fetching {self._name} (tens of megabytes, the first time only)")
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def saw(self, line: str) -> None:
        """Take a line of Ivy's output."""
        if re.match(r"\s+found ", line):
            self._found += 1
            self._bar.update(self._task, completed=self._found)
        elif line.startswith("downloading "):
            self._fetched += 1
            self._bar.update(
                self._task, description=f"{self._name}: downloading", completed=self._fetched, total=self._found
            )
            if not self._console.is_terminal and self._fetched % 10 == 0:
                self._console.print(f"fetching {self._name}: {self._fetched} of {self._found} files")
