"""Messages are written in pieces, and each piece as it has to be: one without a placeholder is no f-string."""

from __future__ import annotations

import ast
import io
import token
import tokenize
from collections.abc import Iterator
from pathlib import Path

import semel

ROOT = Path(semel.__file__).parent


def strings(source: str) -> Iterator[tuple[int, str]]:
    """Each literal as it stands, with its line: pieces that follow each other are kept apart, as ``ast`` alone does not
    keep them.
    """
    lines = source.splitlines(keepends=True)
    begun: list[tuple[int, int]] = []
    for found in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = token.tok_name[found.type]
        if kind == "STRING" and not begun:
            yield found.start[0], found.string
        elif kind == "FSTRING_START":  # Python 3.12 and newer take an f-string apart
            begun.append(found.start)
        elif kind == "FSTRING_END":
            (row, column), (last, end) = begun.pop(), found.end
            if not begun:
                text = lines[row - 1 : last]
                text[-1] = text[-1][:end]
                text[0] = text[0][column:]
                yield row, "".join(text)


def without_placeholder(source: str) -> list[int]:
    """The lines of f-strings, or of pieces of one, that hold no placeholder."""
    found = []
    for line, text in strings(source):
        value = ast.parse(text, mode="eval").body
        if isinstance(value, ast.JoinedStr) and not any(isinstance(part, ast.FormattedValue) for part in value.values):
            found.append(line)
    return found


def test_each_piece_of_an_f_string_has_a_placeholder() -> None:
    files = sorted(ROOT.rglob("*.py"))
    assert len(files) > 50
    assert [
        f"{file.relative_to(ROOT)}:{line}" for file in files for line in without_placeholder(file.read_text("utf-8"))
    ] == []


def test_a_piece_without_one_is_seen() -> None:
    source = 'x = (\n    f"{y} is"\n    f" not"\n    " so"\n    rf" {z}"\n    f"{{}}"\n)\ng = f"""{\n  f"{x}"}\n"""\n'
    assert without_placeholder(source) == [3, 6]
