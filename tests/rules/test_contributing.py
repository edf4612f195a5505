"""CONTRIBUTING.md names all files that know an example of what a maintainer may add, and no other file knows it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEMEL = ROOT / "semel"


def rows(text: str) -> list[tuple[str, list[str], list[str], str]]:
    """What to add, the files that know the example, the example, its test."""
    table = text.split("| To add |")[1].split("\n\n")[0].splitlines()[2:]
    found = []
    for line in table:
        what, change, example, test = (cell.strip() for cell in line.strip("|").split(" | "))
        names = re.findall(r"`([^`]+)`", f"{change} {example}")
        files = [name for name in names if (SEMEL / name).exists()]
        tokens = [name for name in re.findall(r"`([^`]+)`", example) if name not in files]
        found.append((what, files, tokens, *re.findall(r"`(tests/[^`]+)`", test), ""))
    return [row[:4] for row in found]


def knows(source: str, token: str) -> bool:
    """Whether the code, without its docstrings, names the token."""
    tree = ast.parse(source)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    whole = re.compile(rf"(?<![\w.]){re.escape(token)}(?![\w.])")
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            text = node.value
        elif isinstance(node, ast.Name):
            text = node.id
        elif isinstance(node, ast.Attribute):
            text = node.attr
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            text = node.name
        if whole.search(text):
            return True
    return False


def faults(text: str) -> list[str]:
    sources = {path.relative_to(SEMEL).as_posix(): path.read_text() for path in sorted(SEMEL.rglob("*.py"))}
    found = []
    for what, files, tokens, test in rows(text):
        found += [f"{what}: {test} is not there"] if test and not (ROOT / test).exists() else []
        for token in tokens:
            users = {name for name, source in sources.items() if token in source and knows(source, token)}
            named = {name for name in users if any(name == file or name.startswith(f"{file}/") for file in files)}
            found += [f"{what}: {name} knows {token} too" for name in sorted(users - named)]
            idle = [f for f in files if f.endswith(".py") and f not in users]
            found += [f"{what}: {file} does not know {token}" for file in idle]
    return found


PAGE = (ROOT / "CONTRIBUTING.md").read_text()


def test_ten_tasks_of_a_maintainer_are_where_the_page_says() -> None:
    assert len(rows(PAGE)) >= 10
    assert all(files and tokens for _, files, tokens, _ in rows(PAGE))
    assert faults(PAGE) == []


@pytest.mark.parametrize(
    ("cut", "fault"),
    [
        (", `config.py`", "a codec of record batches: config.py knows gzip too"),
        ("`connect/plugins.py`", "a connector: connect/plugins.py knows DatagenSource too"),
    ],
)
def test_a_file_that_is_not_named_is_seen(cut: str, fault: str) -> None:
    assert fault in faults(PAGE.replace(cut, ""))
