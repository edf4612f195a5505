"""Checks of this machine for semel's needs: Java, Python, and the declared packages in their declared versions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from semel.admin.check import Check, Result
from semel.errors import ConfigError
from semel.sandbox.java import OLDEST, find_java, java_version

__all__ = ["machine", "packages"]


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
    if wanted.contains(Version(version).base_version):  # a release candidate counts as its release
        return Check(name, f"{version} (wanted {wanted})", Result.OK)
    advice = f"semel was made and tested with {name} {wanted}: install that."
    return Check(name, f"{version}, and {wanted} is wanted", Result.REFUSED, advice)
