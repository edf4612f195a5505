"""The page that says which test shows what. ``python -m tests.shown > docs/shown.md`` makes it from ``shown.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path

__all__ = ["page"]

ROOT = Path(__file__).parents[1]
_HEAD = """\
# What the tests show

Each line names its tests. `make test` runs them. "Exhaustive" is a test of a whole matrix: `make test` runs a sample of
it, and `make test-exhaustive` all.

| Folder | What it needs |
|---|---|
| `tests/<product>/unit` | nothing: milliseconds |
| `tests/<product>/broker` | real servers, which it starts |
| `tests/<product>/crash` | real processes that are killed |
"""


def page() -> str:
    """Return the page."""
    sections = tomllib.loads((ROOT / "tests" / "shown.toml").read_text())["section"]
    return _HEAD + "".join(map(_section, sections))


def _section(section: dict[str, object]) -> str:
    lines = section["line"]
    assert isinstance(lines, list)
    texts = {where: f"{section[where]}\n\n" if where in section else "" for where in ("before", "after")}
    rows = "".join(f"| {line['shows']} | {line['tests']} |\n" for line in lines)
    return f"\n## {section['name']}\n\n{texts['before']}| Line | Shown by |\n|---|---|\n{rows}" + (
        f"\n{texts['after']}".rstrip("\n") + "\n" if texts["after"] else ""
    )


if __name__ == "__main__":
    print(page(), end="")
