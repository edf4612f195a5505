"""Python in the documents: each block is Python, and every name that it imports from semel is there.

``test_blocks_run.py`` runs them.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterable
from pathlib import Path

import pytest
from sybil.document import Document
from sybil.example import Example
from sybil.parsers.markdown import CodeBlockParser

ROOT = Path(__file__).parents[2]


def evaluate(example: Example) -> str | None:
    """What is wrong with a block; None when nothing is."""
    try:
        tree = ast.parse(example.parsed)
    except SyntaxError as error:
        return f"line {example.line + (error.lineno or 0)} is no Python: {error.msg}"
    for module, names in imports(tree):
        try:
            loaded = importlib.import_module(module)
        except ImportError as error:
            return f"{module} cannot be imported: {error}"
        missing = [name for name in names if not hasattr(loaded, name) and not is_module(f"{module}.{name}")]
        if missing:
            return f"{module} has no {', '.join(missing)}"
    return None


def is_module(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return False
    return True


def imports(tree: ast.AST) -> Iterable[tuple[str, list[str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names if alias.name.split(".")[0] == "semel")
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "semel":
            yield node.module, [alias.name for alias in node.names]


def blocks(path: Path) -> list[Example]:
    return list(Document.parse(str(path), CodeBlockParser("python", evaluate)).examples())


def documents() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_code_blocks() -> None:
    found = {path: blocks(path) for path in documents()}
    assert len(found[ROOT / "README.md"]) == 2, "the README's blocks are not seen"
    problems = [
        f"{path.name}: {problem}"
        for path, examples in found.items()
        for example in examples
        if (problem := evaluate(example))
    ]
    assert problems == []


def test_every_python_fence_is_seen() -> None:
    """A word behind the language is part of it for Sybil, which then passes the block over."""
    marks = ("```python", "<!--- invisible-code-block: python")
    fences = {path.name: sum(map(path.read_text().count, marks)) for path in documents()}
    assert fences == {path.name: len(blocks(path)) for path in documents()}


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import semel\n", None),
        ("from semel import errors\nfrom semel.errors import Fenced", None),
        ("def broken(:\n", "is no Python"),
        ("import semel.nowhere\n", "semel.nowhere cannot be imported"),
        ("from semel.errors import Fenced, Unfenced\n", "semel.errors has no Unfenced"),
    ],
)
def test_a_wrong_block_is_seen(tmp_path: Path, code: str, problem: str | None) -> None:
    document = tmp_path / "page.md"
    document.write_text(f"# A page\n\n```python\n{code}\n```\n\n```bash\nnot python\n```\n")
    (example,) = blocks(document)
    found = evaluate(example)
    assert (found is None) == (problem is None)
    assert (problem or "") in (found or "")
