"""No module of the product or of its tests is longer than can be read in one sitting: 400 lines."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST = 400


def too_long(folder: Path) -> dict[str, int]:
    """Return the modules below a folder that have more lines, with their number."""
    lines = {str(path.relative_to(folder)): len(path.read_text().splitlines()) for path in folder.rglob("*.py")}
    return {name: count for name, count in sorted(lines.items()) if count > MOST}


@pytest.mark.parametrize("folder", ["semel", "bench", "examples", "tests"])
def test_no_module_is_too_long(folder: str) -> None:
    assert too_long(ROOT / folder) == {}, "divide it by what it is about"


def test_a_long_module_is_seen(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text("x = 1\n" * MOST)
    (tmp_path / "long.py").write_text("x = 1\n" * (MOST + 1))
    assert too_long(tmp_path) == {"long.py": MOST + 1}
