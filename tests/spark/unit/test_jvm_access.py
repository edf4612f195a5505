"""Spark's JVM is touched in one folder alone, whose names one test pins."""

from __future__ import annotations

import re
from pathlib import Path

import semel.spark

HOME = Path(semel.spark.__file__).parent
PRIVATE = re.compile(r"\._(?:jvm|jdf|jsc|jsparkSession|sc)\b")


def users(folder: Path) -> list[str]:
    """The modules of a folder that reach into the JVM."""
    found = (path for path in folder.rglob("*.py") if PRIVATE.search(path.read_text()))
    return sorted(path.relative_to(HOME).as_posix() for path in found)


def test_only_jvm_touches_the_jvm() -> None:
    assert [name for name in users(HOME) if not name.startswith("jvm/")] == []


def test_its_users_are_found() -> None:
    assert "jvm/streaming_query.py" in users(HOME / "jvm")
