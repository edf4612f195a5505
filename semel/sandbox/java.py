"""A search for a Java that Kafka and Spark can run on (DESIGN section 9: nothing but Python 3.11+ and Java 17+ is
needed).

``JAVA_HOME`` wins over the search path, as in Kafka's and Spark's own scripts.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from semel.errors import ConfigError

__all__ = ["OLDEST", "find_java", "java_version"]

OLDEST = 17

_HOW = (
    f"Install Java {OLDEST} or newer (Debian, Ubuntu: sudo apt install openjdk-17-jre-headless;"
    " Fedora: sudo dnf install java-21-openjdk-headless; macOS: brew install openjdk@21), or point JAVA_HOME to one."
)


def find_java() -> str:
    """Return the path of the ``java`` program. Raise :class:`ConfigError` if there is none, or only an older one."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None or not os.access(program, os.X_OK):
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the search path"
        raise ConfigError(
            f"Java is missing: {where}. Kafka and Spark run on it, so nothing was started. {_HOW}", tag="JAVA_MISSING"
        )
    version = java_version(program)
    if version < OLDEST:
        raise ConfigError(
            f"{program} is Java {version}, and Kafka needs {OLDEST} or newer. Nothing was started. {_HOW}",
            tag="JAVA_TOO_OLD",
        )
    return program


@lru_cache
def java_version(program: str) -> int:
    """Return the major version of a ``java`` program. Raise :class:`ConfigError` if it does not answer like Java."""
    done = subprocess.run([program, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    text = done.stderr + done.stdout
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    if done.returncode or not match:
        raise ConfigError(
            f"{program} -version does not answer like Java: {text.strip()[:300]!r}. Nothing was started. {_HOW}",
            tag="JAVA_MISSING",
        )
    return int(match.group(1))
