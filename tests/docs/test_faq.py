"""docs/faq.md answers each of the design's 27 objections, and names a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
OBJECTIONS = range(1, 28)


def answers(text: str) -> dict[int, str]:
    """What stands below each numbered heading."""
    parts = re.split(r"^### (\d+)\. .+$", text, flags=re.MULTILINE)
    return {int(number): body for number, body in zip(parts[1::2], parts[2::2], strict=True)}


def faults(text: str, tests: set[str]) -> list[str]:
    found = answers(text)
    objections = {n: set(re.findall(r"`(tests/objections/\S+?\.py)`", body)) for n, body in found.items()}
    missing = [f"{number} is missing" for number in OBJECTIONS if number not in found]
    for number, body in found.items():
        named = re.findall(r"`(tests/\S+?\.py)`", body)
        missing += [f"{number} names {name}, which is not there" for name in named if name not in tests]
        if not objections[number] - set().union(*(names for n, names in objections.items() if n != number)):
            missing.append(f"{number} names no test of its own")
    return missing


def test_each_objection_is_answered_and_shown() -> None:
    tests = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").glob("**/test_*.py")}
    assert faults((ROOT / "docs" / "faq.md").read_text(), tests) == []


def test_what_is_missing_is_seen() -> None:
    whole = "".join(f"### {n}. Why?\n\nSo. `tests/objections/test_x{n}.py`\n\n" for n in OBJECTIONS)
    tests = {f"tests/objections/test_x{n}.py" for n in OBJECTIONS}
    assert faults(whole, tests) == []
    assert faults(whole.replace("### 7. ", "### 28. "), tests)[0] == "7 is missing"
    assert faults(whole, tests - {"tests/objections/test_x9.py"}) == [
        "9 names tests/objections/test_x9.py, which is not there"
    ]
    assert faults(whole.replace("test_x5.", "test_x4."), tests) == [
        "4 names no test of its own",
        "5 names no test of its own",
    ]
