"""Each error tag has its row in the table, the table has no other rows, and docs/errors.md is made from it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import semel
from semel import error_tags
from semel.wire import error_codes

ROOT = Path(semel.__file__).parent
PAGE = ROOT.parent / "docs" / "errors.md"

_PLAIN = re.compile(r"[A-Z][A-Z0-9_]*")


class Module:
    """The tags that one module gives."""

    def __init__(self, source: str) -> None:
        nodes = list(ast.walk(ast.parse(source)))
        self._assigned: dict[str, list[ast.expr]] = {}
        self._positions: dict[str, int] = {}
        for node in nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assigned.setdefault(ast.unparse(target), []).append(node.value)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                self._assigned.setdefault(ast.unparse(node.target), []).append(node.value)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [one.arg for one in node.args.args if one.arg not in ("self", "cls")]
                if "tag" in names:
                    self._positions[node.name] = names.index("tag")
                    defaults = dict(zip(reversed(names), reversed(node.args.defaults), strict=False))
                    self._assigned.setdefault("tag", []).extend([defaults["tag"]] if "tag" in defaults else [])
        self.built: list[str] = []
        given = [value for name in ("tag", "default_tag") for value in self._assigned.get(name, [])]
        for node in nodes:
            if isinstance(node, ast.Call):
                given += [one.value for one in node.keywords if one.arg == "tag"]
                self.built += [text for one in node.keywords if one.arg == "tag" for text in _built(one.value)]
                name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
                at = self._positions.get(name)
                if at is not None and len(node.args) > at:
                    given.append(node.args[at])
            elif isinstance(node, ast.FunctionDef) and node.name == "tag":
                given += [one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value]
        self.tags = {tag for value in given for tag in self._of(value)}

    def _of(self, value: ast.expr) -> set[str]:
        match value:
            case ast.Constant(value=str(text)):
                return {text}
            case ast.IfExp(body=body, orelse=orelse):
                return self._of(body) | self._of(orelse)
            case ast.Name(id=name) if name.isupper():
                return {tag for one in self._assigned.get(name, []) for tag in self._of(one)}
        return set()


def _built(value: ast.expr) -> list[str]:
    return [ast.unparse(one) for one in ast.walk(value) if isinstance(one, ast.JoinedStr | ast.BinOp)]


def modules() -> dict[str, Module]:
    found = {str(file.relative_to(ROOT)): Module(file.read_text("utf-8")) for file in sorted(ROOT.rglob("*.py"))}
    assert len(found) > 100
    return found


def test_each_tag_of_the_code_has_a_row_and_no_row_is_left() -> None:
    found = {tag for module in modules().values() for tag in module.tags}
    codes = {error_codes.name(code) for code in error_codes.codes()}
    rows = set(error_tags.table())
    assert sorted(found - rows - codes) == [], "tags without a row in semel/error_tags.toml"
    assert sorted(rows - found) == [], "rows of semel/error_tags.toml that no code uses"


def test_no_tag_is_built_at_run_time() -> None:
    assert {name: module.built for name, module in modules().items() if module.built} == {}


def test_each_way_to_give_a_tag_is_seen() -> None:
    source = """
A = "ONE"
class E(Error):
    default_tag = "TWO"
class P:
    tag: str = "THREE"
def _refused(what, tag="NINE"):
    return Error(what, tag=tag)
def f(x):
    raise Error("", tag=A)
    raise Error("", tag="FOUR" if x else "FIVE")
    raise _refused("", "SIX")
    raise Error("", tag=error.tag)
    raise Error("", tag=f"SEVEN_{x}")
class Q:
    @property
    def tag(self):
        return "EIGHT"
"""
    found = Module(source)
    assert found.tags == {"ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "EIGHT", "NINE"}
    assert found.built == ["f'SEVEN_{x}'"]


def test_the_page_is_made_from_the_table() -> None:
    assert PAGE.read_text("utf-8") == error_tags.page(), "run: python -m semel.error_tags > docs/errors.md"


def test_rows_are_short_sentences_and_say_all_three() -> None:
    for tag, row in error_tags.table().items():
        assert _PLAIN.fullmatch(tag), tag
        for text in (row.happened, row.data, row.remedy):
            assert text.endswith((".", "`")), f"{tag}: {text}"
            assert "|" not in text, f"{tag}: {text}"
            assert max(len(one.split()) for one in re.split(r"[.?!:;] ", text)) <= 30, f"{tag}: {text}"


def test_the_table_is_in_order() -> None:
    assert list(error_tags.table()) == sorted(error_tags.table())
