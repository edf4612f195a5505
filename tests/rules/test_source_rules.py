"""Rules of the source that no linter knows: where Spark's private names may be used, and names that exist nowhere."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: What PySpark keeps to itself.
PRIVATE = set(
    "_jvm _jsc _jdf _jrdd _jq _jconf _jschema _jwriter _jreader _jsparkSession _gateway _active_spark_context".split()
)
#: In backquotes, and no name of this project: values, words of other programs, and what a user writes.
FOREIGN = set((ROOT / "tests" / "rules" / "foreign_names.txt").read_text().split())
_WORD = re.compile("[a-z]+")
_IDENTIFIER = re.compile("[A-Za-z_][A-Za-z_0-9]*")
_NAME = re.compile(r"(?<!`)``([A-Za-z_][A-Za-z_0-9.]*)(?:\([^`]*\))?``(?!`)")


@dataclass
class Source:
    """What one module says: its identifiers, its texts but docstrings, and the names that its docstrings quote."""

    identifiers: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    quoted: set[str] = field(default_factory=set)

    @property
    def names(self) -> set[str]:
        return self.identifiers | {word for text in self.texts for word in _IDENTIFIER.findall(text)}

    @property
    def private(self) -> set[str]:
        return {*self.identifiers, *self.texts} & PRIVATE

    def unknown(self, everywhere: set[str]) -> set[str]:
        """The quoted names that do not exist. A plain word is a parameter: its own module must have it."""
        here = self.names | FOREIGN
        known = here | everywhere
        return {
            name
            for name in self.quoted
            if not set(name.strip(".").split(".")) <= (here if _WORD.fullmatch(name) else known)
        }


def look(code: str) -> Source:
    source, docstrings = Source(), set[int]()
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)) as constant):
                docstrings.add(id(constant))
                source.quoted.update(_NAME.findall(text))
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                source.texts.append(text)
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                source.identifiers.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.alias(name=name):
                source.identifiers.add(name)
            case ast.ImportFrom(module=str(name)):
                source.identifiers.update(name.split("."))
    return source


@cache
def sources() -> dict[Path, Source]:
    return {path.relative_to(ROOT): look(path.read_text()) for path in sorted((ROOT / "semel").rglob("*.py"))}


def test_only_the_jvm_package_uses_private_names_of_pyspark() -> None:
    """The tests of those names are what shows a new version of Spark that lacks one."""
    allowed = [("semel", "spark", "jvm"), ("semel", "testing"), ("semel", "sandbox")]
    outside = {path: one for path, one in sources().items() if not any(path.parts[: len(a)] == a for a in allowed)}
    assert {str(path): one.private for path, one in outside.items() if one.private} == {}


def test_a_private_name_is_seen() -> None:
    assert look("getattr(context, '_jsc')\nframe._jdf").private == {"_jsc", "_jdf"}


def test_names_in_docstrings_exist() -> None:
    modules = {part.removesuffix(".py") for path in sources() for part in path.parts}
    everywhere = modules.union(*(one.names for one in sources().values()))
    found = {str(path): one.unknown(everywhere) - modules for path, one in sources().items()}
    wrong = {path: names for path, names in found.items() if names}
    assert wrong == {}, "rename them in the docstring too, or add a foreign name to tests/rules/foreign_names.txt"


def test_a_name_that_is_gone_is_seen() -> None:
    source = look('def f(there):\n    """Take ``there`` and ``gone``."""')
    assert source.unknown({"gone"}) == {"gone"}, "another module has it"
