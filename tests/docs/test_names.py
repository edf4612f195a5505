"""Names in the documents: modules of semel, and the tests that docs/shown.md calls as witnesses, are there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.shown import page

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("**/*.md"))
PACKAGES = "|".join(
    path.name for path in sorted((ROOT / "semel").iterdir()) if path.is_dir() and path.name != "__pycache__"
)


def test_modules() -> None:
    named = {name for path in DOCS for name in re.findall(rf"`((?:{PACKAGES})(?:/\w+)+)`", path.read_text())}
    assert len(named) > 20, "no module is seen"
    there = {name for name in named if (ROOT / "semel" / f"{name}.py").exists() or (ROOT / "semel" / name).is_dir()}
    assert sorted(named - there) == []


def test_modules_of_the_layout_decision() -> None:
    """Each row names its modules whole: ``wire/client``."""
    lines = [
        line for line in (ROOT / "docs/decisions/0002-layout.md").read_text().splitlines() if line.startswith("| `")
    ]
    assert lines
    for line in lines:
        for name in re.findall(r"`([^`]+)`", line.split("|")[1]):
            assert (ROOT / "semel" / f"{name}.py").exists(), name


def test_witnesses() -> None:
    """Each test file and function that the page names exists; a function behind a file is in that file."""
    sources = {path.relative_to(ROOT).as_posix(): path.read_text() for path in (ROOT / "tests").glob("**/test_*.py")}
    defined = {path: set(re.findall(r"^def (test_\w+)", source, re.MULTILINE)) for path, source in sources.items()}
    everywhere = set().union(*defined.values())
    wrong, seen = [], 0
    for line in (ROOT / "docs/shown.md").read_text().splitlines():
        file = ""
        for name in re.findall(r"`((?:tests/[\w/]+/)?test_\w+(?:\.py)?)`", line):
            seen += 1
            if name.endswith(".py"):
                file = name if "/" in name else f"{file.rpartition('/')[0]}/{name}"
                wrong += [] if file in defined else [file]
            elif name not in (defined.get(file, set()) if file else everywhere):
                wrong.append(f"{file}: {name}")
    assert seen > 100, "no witness is seen"
    assert wrong == []


def test_the_page_of_witnesses_is_as_it_is_made() -> None:
    """Make it anew with ``python -m tests.shown > docs/shown.md``."""
    assert (ROOT / "docs/shown.md").read_text() == page()
