"""The machine and versions of a run: how busy it was before, and what its host took away meanwhile."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyspark

from bench.connector import CLIENTS_VERSION, VERSION
from semel import __version__
from semel.sandbox.jars import chosen_version
from semel.sandbox.java import find_java

__all__ = ["Steal", "busy", "facts", "load"]


def facts() -> dict[str, str]:
    """Return the facts that place the figures, by name, in the order of printing."""
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{gigabytes:.0f} GB",
        "system": f"{platform.system()} {platform.release()}",
        "load before": f"{load():.1f} (average of one minute)",
        "Kafka": f"{chosen_version()}, one broker",
        "Spark": f"{pyspark.__version__}, local[2]",
        "JVM connector": f"{VERSION}, with kafka-clients {CLIENTS_VERSION}",
        "Python": platform.python_version(),
        "pyarrow": pa.__version__,
        "Java": _java(),
        "semel": f"{__version__}, {_commit()}",
    }


def load() -> float:
    """Return how many processes wanted a core in the last minute."""
    return os.getloadavg()[0]


def busy() -> bool:
    """Return whether other work takes so much of the machine that figures mean little."""
    return load() > (os.cpu_count() or 1) / 2


class Steal:
    """The share of the processors' time that the host of a virtual machine gives to others, from here on. Figures move
    with it.
    """

    def __init__(self) -> None:
        self._began, self._before = time.monotonic(), _stolen()

    def __str__(self) -> str:
        now = _stolen()
        if now is None or self._before is None:
            return "unknown"
        return (
            f"{(now - self._before) / (time.monotonic() - self._began) / (os.cpu_count() or 1):.1%} of the"
            " processors' time"
        )


def _stolen() -> float | None:
    """Seconds since the start of the machine, summed over its processors; None where the system does not say."""
    counted = Path("/proc/stat")
    return int(counted.read_text().split()[8]) / os.sysconf("SC_CLK_TCK") if counted.exists() else None


def _processor() -> str:
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", listed.read_text(), re.MULTILINE)
        if found:
            return found.group(1)
    if sys.platform == "darwin":
        return _said("sysctl", "-n", "machdep.cpu.brand_string")
    return platform.machine()


def _java() -> str:
    done = subprocess.run(
        [find_java(), "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    found = re.search(r'^(\w+) version "(.*?)"', done.stderr + done.stdout, re.MULTILINE)
    return " ".join(found.groups()) if found else "unknown"


def _commit() -> str:
    try:
        home = str(Path(__file__).parent)
        said = _said("git", "-C", home, "describe", "--always", "--exclude=*", "--dirty=, with changes")
    except (OSError, subprocess.CalledProcessError):
        return "not from a git checkout"
    return f"commit {said}"


def _said(*command: str) -> str:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout.strip()
