"""A home of Spark that starts quickly: its Java finds parsed classes, and its Python workers find compiled modules.

Spark's workers import PySpark from a zip, which can hold no compiled modules: each of a query's half dozen processes
compiles PySpark again. Here the folder of the PySpark installation replaces the zip. Java reads an archive of parsed
classes (class data sharing), which one run of ``warm_up`` makes. With both, a driver that is started twenty times needs
half the time.

A home is made once for an installation of PySpark, in the cache; Java itself ignores an archive that does not fit it.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import threading
import time
from importlib.metadata import distribution
from pathlib import Path

from semel.sandbox.jars import cache_directory
from semel.sandbox.processes import alive

__all__ = ["java_options", "spark_home"]

_PATIENCE_S, _POLL_S = 300.0, 0.1
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:cds=off -Xlog:cds+dynamic=off"


def spark_home() -> Path:
    """Return the folder for ``SPARK_HOME``. It is made if missing, which takes a start of Spark."""
    installed = distribution("pyspark")
    site = Path(str(installed.locate_file("")))
    home = cache_directory() / "spark" / f"{installed.version}-{hashlib.sha256(bytes(site)).hexdigest()[:8]}"
    if not home.exists():
        _make(home, site)
    return home


def java_options() -> str:
    """Return options for a Java that starts quickly and compiles little."""
    return f"{_QUICK} -Xshare:auto -XX:SharedArchiveFile={spark_home() / 'classes.jsa'}"


def _make(home: Path, site: Path) -> None:
    draft = home.with_name(f"{home.name}.{os.getpid()}")
    (draft / "python" / "lib").mkdir(parents=True)
    for name in ("bin", "jars"):
        (draft / name).symlink_to(site / "pyspark" / name)
    (draft / "python" / "lib" / "pyspark.zip").symlink_to(site)
    try:
        draft.rename(home)
    except OSError:  # another process has just made it
        for link in (draft / "bin", draft / "jars", draft / "python" / "lib" / "pyspark.zip"):
            link.unlink()
    _archive(home)


def _archive(home: Path) -> None:
    archive = home / f"classes.{os.getpid()}"
    submit = [
        "--master",
        "local[2]",
        "--conf",
        f"spark.driver.extraJavaOptions={_QUICK} -XX:ArchiveClassesAtExit={archive}",
        "pyspark-shell",
    ]
    variables = {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": shlex.join(submit),
    }
    argv = [sys.executable, "-m", "semel.testing.spark.warm_up"]
    environment = {**os.environ, **variables}
    done = subprocess.run(
        argv, env=environment, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE_S
    )
    if done.returncode:
        raise RuntimeError(f"the classes of Spark could not be archived:\n{done.stderr[-4000:]}")
    _await_end(int(done.stdout.split()[-1]), archive)
    archive.rename(home / "classes.jsa")


def _await_end(java: int, archive: Path) -> None:
    end = time.monotonic() + _PATIENCE_S
    while alive(java):
        threading.Event().wait(_POLL_S)
        if time.monotonic() > end:
            raise RuntimeError(f"process {java} did not end within {_PATIENCE_S} s of writing {archive}")


if __name__ == "__main__":
    spark_home()
