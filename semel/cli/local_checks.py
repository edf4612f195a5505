"""Checks of this machine for semel's needs: Java, Python, the declared packages in their declared versions, and the
Python that Spark would start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from semel._version import __version__
from semel.admin.check import Check, Result
from semel.errors import ConfigError
from semel.sandbox.java import OLDEST, find_java, java_version
from semel.spark.interpreter import workers_python

__all__ = ["machine", "packages", "sparks_python"]

_PATIENCE_S = 60
_ASK = """
import json, sys
try:
    from semel._version import __version__ as semel
except ImportError:
    semel = None
print(json.dumps([list(sys.version_info[:3]), semel]))
"""


def machine() -> Iterator[Check]:
    """Check Java, Python and packages. Without PySpark, for plain Python, a missing Java is only a warning."""
    try:
        program = find_java()
        yield Check("Java", f"{java_version(program)} ({program})", Result.OK)
    except ConfigError as error:
        verdict = Result.WARNING if _installed("pyspark") is None else Result.REFUSED
        yield Check(
            "Java", error.message, verdict, f"Spark's driver and executors need Java {OLDEST} or newer where they run."
        )
    wanted = metadata.metadata("semel")["Requires-Python"] or ""
    yield _compared("Python", ".".join(map(str, sys.version_info[:3])), SpecifierSet(wanted))
    yield from packages(metadata.requires("semel") or (), _installed)
    if _installed("pyspark") is not None:
        yield from sparks_python()


def sparks_python() -> Iterator[Check]:
    """Check the Python that Spark would start here for a program that names none: as long as ``semel.spark``, imported
    before the session, gives Spark its own, a wrong one is a warning.
    """
    subject = "Spark's Python"
    name, path = workers_python()
    wrong = Result.REFUSED if os.environ.get("PYSPARK_PYTHON") else Result.WARNING
    advice = f"Set PYSPARK_PYTHON={sys.executable} before Spark starts, or another Python with this semel."
    answer = _ask(path) if path is not None else None
    if answer is None:
        yield Check(subject, f"{name} does not start", wrong, advice)
        return
    version, semel = answer
    facts = f"{'.'.join(map(str, version))}, with {f'semel {semel}' if semel else 'no semel'} ({path}, {name})"
    if version[:2] != list(sys.version_info[:2]):
        yield Check(subject, f"{facts}; this is {sys.version_info[0]}.{sys.version_info[1]}", wrong, advice)
    elif semel != __version__:
        yield Check(subject, facts if semel is None else f"{facts}; this is {__version__}", wrong, advice)
    else:
        yield Check(subject, facts, Result.OK)
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        what = "is set: each Python process that Spark starts compiles PySpark again, and a query takes a minute longer"
        yield Check("PYTHONDONTWRITEBYTECODE", what, Result.WARNING, "Unset it where Spark runs.")


def _ask(path: str) -> tuple[list[int], str | None] | None:
    """Ask a Python for its version and its semel's. Return None without an answer."""
    try:
        done = subprocess.run([path, "-c", _ASK], cwd="/", capture_output=True, text=True, timeout=_PATIENCE_S)
        version, semel = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return version, semel


def packages(requirements: Iterable[str], installed: Callable[[str], str | None]) -> Iterator[Check]:
    """Check the packages that semel declares: its own needs, and those of the extra ``spark``."""
    for text in requirements:
        wanted = Requirement(text)
        ours = wanted.marker is None
        if not ours and not (wanted.marker and wanted.marker.evaluate({"extra": "spark"})):
            continue
        version = installed(wanted.name)
        if version is not None:
            yield _compared(wanted.name, version, wanted.specifier)
        elif ours:
            advice = f"Run: pip install '{wanted.name}{wanted.specifier}'"
            yield Check(wanted.name, "is not installed", Result.REFUSED, advice)
        else:
            advice = "Spark's driver and executors need it where they run: pip install '.[spark]', in semel's checkout"
            yield Check(wanted.name, "is not installed", Result.WARNING, advice)


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _compared(name: str, version: str, wanted: SpecifierSet) -> Check:
    release = Version(version).base_version  # a release candidate counts as its release
    if wanted.contains(release):
        return Check(name, f"{version} (wanted {wanted})", Result.OK)
    if name == "pyspark" and SpecifierSet(",".join(str(one) for one in wanted if "<" not in str(one))).contains(
        release
    ):
        advice = "semel was not tested with it. What a query needs and this Spark lacks is refused by name."
        return Check(name, f"{version}, and {wanted} is wanted", Result.WARNING, advice)
    advice = f"semel was made and tested with {name} {wanted}: install that."
    return Check(name, f"{version}, and {wanted} is wanted", Result.REFUSED, advice)
