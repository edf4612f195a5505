"""References to the project's two numbered texts, in code and pages: each names something that is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
NUMBERS = r"\d+(?:\.\d+)?(?:(?:, | and | to )\d+(?:\.\d+)?)*"
#: DESIGN rule 2, DESIGN sections 2 and 7, DESIGN 3, PROTOCOL 5.3, PROTOCOL section 4, PROTOCOL 2 to 5
REFERENCE = re.compile(rf"\b(DESIGN|PROTOCOL)\s+(?:(rule|section)s?\s+)?({NUMBERS})(?:, row (\d+))?")


def numbered(page: Path) -> tuple[set[str], set[str]]:
    """The sections of a page with their numbered items (``3``, ``3.5``), and the codes that its tables name."""
    found: set[str] = set()
    section = ""
    for line in page.read_text().splitlines():
        if heading := re.match(r"## (\d+)\. ", line):
            section = heading[1]
            found.add(section)
        elif item := re.match(r"(\d+)\. ", line):
            found.add(f"{section}.{item[1]}")
    return found, set(re.findall(r"\((\d\d)\)", page.read_text()))


DESIGN, _ = numbered(ROOT / "docs/design.md")
PROTOCOL, ROWS = numbered(ROOT / "docs/protocol.md")


def unresolved(text: str) -> list[str]:
    """The references of a text that lead nowhere."""
    wrong = []
    for whole in REFERENCE.finditer(re.sub(r"\s*\n\s*(?:#:? )?", " ", text)):
        page, kind, numbers, row = whole.groups()
        there = PROTOCOL if page == "PROTOCOL" else DESIGN
        for number in re.split(r", | and | to ", numbers):
            wanted = f"4.{number}" if kind == "rule" else number
            if wanted not in there or (row is not None and row not in ROWS):
                wrong.append(whole[0])
    return wrong


def test_each_reference_leads_somewhere() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = [
        name
        for name in listed.splitlines()
        if name.endswith((".py", ".md", ".toml")) and "/test_references" not in name
    ]
    seen = sum(len(REFERENCE.findall((ROOT / name).read_text())) for name in names)
    assert seen > 100, "no reference is seen"
    assert {name: wrong for name in names if (wrong := unresolved((ROOT / name).read_text()))} == {}


def test_one_that_leads_nowhere_is_seen() -> None:
    text = (
        "DESIGN rule 99, DESIGN section 12, PROTOCOL 3.77, PROTOCOL 4, row 12; DESIGN rule 2 and PROTOCOL 5.3 are there"
    )
    assert unresolved(text) == ["DESIGN rule 99", "DESIGN section 12", "PROTOCOL 3.77", "PROTOCOL 4, row 12"]
