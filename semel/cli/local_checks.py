"""What this machine has of what semel needs: Java, Python, and the packages that it declares, in the versions that it
declares.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from itertools import zip_longest

from semel.admin.doctor import Check, Result
from semel.errors import ConfigError
from semel.sandbox.java import OLDEST, find_java, java_version

__all__ = ["machine", "packages"]

_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(?:\[[^]]*\])?\s*(?P<clauses>[^;]*)(?:;\s*extra\s*==\s*['\"](?P<extra>[\w-]+)['\"])?\s*"
)
_CLAUSE = re.compile(r"(<=|>=|==|<|>)\s*([0-9.]+)")
_HOLDS: dict[str, Callable[[int], bool]] = {
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
    "==": lambda sign: sign == 0,
    ">=": lambda sign: sign >= 0,
    ">": lambda sign: sign > 0,
}


def machine() -> Iterator[Check]:
    """Java, Python, packages. Without PySpark, as plain Python needs it, Java is not needed here either."""
    try:
        program = find_java()
        yield Check("Java", f"{java_version(program)} ({program})", Result.OK)
    except ConfigError as error:
        verdict = Result.WARNING if _installed("pyspark") is None else Result.REFUSED
        yield Check(
            "Java", error.message, verdict, f"Spark's driver and executors need Java {OLDEST} or newer where they run."
        )
    wanted = metadata.metadata("semel")["Requires-Python"] or ""
    yield _compared("Python", ".".join(map(str, sys.version_info[:3])), wanted)
    yield from packages(metadata.requires("semel") or (), _installed)


def packages(requirements: Iterable[str], installed: Callable[[str], str | None]) -> Iterator[Check]:
    """Of what semel declares, what is installed: its own needs, and those of the extra ``spark``."""
    for text in requirements:
        found = _REQUIREMENT.fullmatch(text)
        if found is None or found["extra"] not in (None, "spark"):
            continue
        name, version = found["name"], installed(found["name"])
        if version is not None:
            yield _compared(name, version, found["clauses"])
        elif found["extra"] is None:
            yield Check(
                name, "is not installed", Result.REFUSED, f"Run: pip install '{name}{found['clauses'].strip()}'"
            )
        else:
            advice = "Spark's driver and executors need it where they run: pip install '.[spark]', in semel's checkout"
            yield Check(name, "is not installed", Result.WARNING, advice)


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _compared(name: str, version: str, clauses: str) -> Check:
    wanted = ",".join(sorted((operator + number for operator, number in _CLAUSE.findall(clauses)), reverse=True))
    if all(_HOLDS[operator](_sign(version, number)) for operator, number in _CLAUSE.findall(clauses)):
        return Check(name, f"{version} (wanted {wanted})", Result.OK)
    return Check(
        name,
        f"{version}, and {wanted} is wanted",
        Result.REFUSED,
        f"semel was made and tested with {name} {wanted}: install that.",
    )


def _sign(one: str, other: str) -> int:
    """-1, 0 or 1: by the numbers of the release; what follows them (``rc1``, ``.dev0``) is passed over."""
    pairs = zip_longest(_release(one), _release(other), fillvalue=0)
    return next((1 if a > b else -1 for a, b in pairs if a != b), 0)


def _release(version: str) -> list[int]:
    leading = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    return [int(part) for part in leading[0].split(".")] if leading else []
