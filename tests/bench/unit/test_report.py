"""The report: what is written into the document, and that nothing else of it changes."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench import machine
from bench.figures import differences, ratios
from bench.plot import draw
from bench.report import BEGIN, END, insert, markdown, print_report

FIGURES = [
    ratios("sink, free rows", "Spark's JVM sink", [150.0, 120.0], [100.0, 100.0], target=1.0, aim=1.5),
    ratios("sink, free rows", "a | b", [1.0, 1.0], [4.0, 4.0]),
    differences("micro-batch, 4 partitions", "same sink", [130.0, 140.0], [100.0, 100.0], target=25.0, aim=10.0),
]
DOCUMENT = Path(__file__).parents[3] / "docs" / "benchmarks.md"


def test_the_part_holds_figures_and_machine() -> None:
    part = markdown(FIGURES, {"memory": "16 GB"}, {"pairs": "5"}, "benchmarks.png")
    lines = part.splitlines()
    assert lines[0].endswith("(benchmarks.png)")
    assert (
        "| sink, free rows | Spark's JVM sink | 1.35x | 1.20x to 1.50x | 1.00x | 1.50x | met | 135/s | 100/s |" in lines
    )
    assert "| sink, free rows | a \\| b | 0.25x | 0.25x to 0.25x |  |  |  | 1/s | 4/s |" in lines
    assert (
        "| micro-batch, 4 partitions | same sink | +35.0 ms | +30.0 ms to +40.0 ms | +25.0 ms | +10.0 ms | not met |"
        " 135.0 ms | 100.0 ms |" in lines
    )
    assert lines[-2:] == ["| memory | 16 GB |", "| pairs | 5 |"]


def test_only_what_is_between_the_marks_is_replaced(tmp_path: Path) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    mode = document.stat().st_mode
    insert(document, "new")
    insert(document, "newer")
    assert document.read_text() == f"before\n{BEGIN}\n\nnewer\n\n{END}\nafter\n"
    assert document.stat().st_mode == mode
    assert list(tmp_path.iterdir()) == [document]


@pytest.mark.parametrize("text", ["", BEGIN, f"{END}{BEGIN}", f"{BEGIN}{END}{BEGIN}"])
def test_a_document_without_its_marks_is_left_alone(tmp_path: Path, text: str) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text(text)
    with pytest.raises(ValueError, match="does not have the marks"):
        insert(document, "new")
    assert document.read_text() == text


def test_the_projects_own_document_has_the_marks(tmp_path: Path) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text(DOCUMENT.read_text())
    insert(document, "new")


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    draw(FIGURES, tmp_path / "all.png")
    draw(FIGURES[-1:], tmp_path / "one-kind.png")
    assert [path.read_bytes()[:8] for path in sorted(tmp_path.iterdir())] == [b"\x89PNG\r\n\x1a\n"] * 2


def test_the_terminal_shows_verdicts_and_machine() -> None:
    console = Console(file=StringIO(), width=200)
    print_report(console, FIGURES, {"memory": "16 GB"})
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert "not met" in shown
    assert "memory: 16 GB" in shown


def test_the_machine_is_described_without_its_paths() -> None:
    facts = machine.facts()
    assert {
        "processor",
        "memory",
        "system",
        "Kafka",
        "Spark",
        "JVM connector",
        "Python",
        "Java",
        "semel",
        "date",
    } <= facts.keys()
    assert all(value and str(Path.cwd()) not in value for value in facts.values())
