"""Messages are plain and short, and each of their pieces without a placeholder is no f-string."""

from __future__ import annotations

import ast
import io
import re
import token
import tokenize
from collections.abc import Iterator
from pathlib import Path

import semel
from semel import errors

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


# ---- plain words: the rules of style, kept by a list of offenders that may only shrink

#: What was not plain yet when the rule came: a line for a file, with the number of its messages and first lines of
#: docstrings. Made by ``python -m tests.rules.test_messages``.
OFFENDERS = Path(__file__).parent / "offenders.txt"

MOST_WORDS = 60
MOST_WORDS_OF_A_SENTENCE = 30
BANNED = re.compile(r"\b(anew|whoever|somebody|in front of|goes on|stands? open|told)\b", re.IGNORECASE)
_RAISED = {"SemelError", *(cls.__name__ for cls in errors.SemelError.__subclasses__())}
_LOGGED = {"debug", "info", "warning", "error", "exception", "given_up"}


def rendered(node: ast.expr) -> str:
    """The text of a message, each placeholder one word."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(rendered(value) for value in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return rendered(left) + rendered(right)
        case ast.IfExp(body=body, orelse=orelse):
            return max(rendered(body), rendered(orelse), key=len)
    return "X"


def messages(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """Each error that is made, each thing with a tag, and each line that is logged; and its text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
            if name in _RAISED or name in _LOGGED or any(one.arg == "tag" for one in node.keywords):
                yield node, " ".join(rendered(one) for one in node.args)


def pieces(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The other literals of several words, which may be pieces of messages; docstrings are none."""
    known = {id(one) for call, _ in messages(tree) for one in ast.walk(call)}
    known |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    known |= {id(one) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for one in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in known and " " in rendered(node):
            yield node.lineno, rendered(node)


def first_lines(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text.split("\n\n")[0].replace("\n", " ")


def wrong_with(message: str) -> list[str]:
    """What is not plain about a message."""
    found = [f"{word!r} is banned" for word in BANNED.findall(message)]
    sentences = re.split(r"(?<=[.?!])\s+|\s+(?=\(\d\))", message)
    longest = max(len(one.split()) for one in sentences)
    if len(message.split()) > MOST_WORDS:
        found.append(f"{len(message.split())} words, {MOST_WORDS} are allowed")
    if longest > MOST_WORDS_OF_A_SENTENCE:
        found.append(f"a sentence of {longest} words, {MOST_WORDS_OF_A_SENTENCE} are allowed")
    return found


def offenders(source: str) -> tuple[list[str], list[str]]:
    """The messages and the first lines of docstrings that are not plain, each with its line and what is wrong."""
    tree = ast.parse(source)
    of_messages = [
        f"{call.lineno}: {'; '.join(wrong)}: {text}"
        for call, text in messages(tree)
        for wrong in [wrong_with(text)]
        if wrong
    ]
    of_messages += [
        f"{line}: {', '.join(BANNED.findall(text))}: {text}" for line, text in pieces(tree) if BANNED.search(text)
    ]
    of_lines = [f"{line}: {', '.join(BANNED.findall(text))}" for line, text in first_lines(tree) if BANNED.search(text)]
    return of_messages, of_lines


def all_offenders() -> dict[str, tuple[list[str], list[str]]]:
    found = {
        file.relative_to(ROOT).as_posix(): offenders(file.read_text("utf-8")) for file in sorted(ROOT.rglob("*.py"))
    }
    return {name: both for name, both in found.items() if any(both)}


def listed() -> dict[str, tuple[int, int]]:
    rows = (line.split() for line in OFFENDERS.read_text("utf-8").splitlines())
    return {name: (int(of_messages), int(of_lines)) for of_messages, of_lines, name in rows}


def test_messages_and_first_lines_are_plain() -> None:
    """Nothing that is not plain comes in, and what was mended leaves the list."""
    found, known = all_offenders(), listed()
    more, fewer = [], []
    for name in sorted(found.keys() | known.keys()):
        for kind, at in (("messages", 0), ("first lines", 1)):
            there = found.get(name, ([], []))[at]
            allowed = known.get(name, (0, 0))[at]
            if len(there) > allowed:
                more += [f"semel/{name}: {allowed} {kind} may not be plain:", *there]
            if len(there) < allowed:
                fewer.append(f"semel/{name}: {len(there)} {kind}, and {allowed} are listed")
    assert more == [], "rewrite them: three short sentences"
    assert fewer == [], "they were mended: python -m tests.rules.test_messages > tests/rules/offenders.txt"


def test_what_is_not_plain_is_seen() -> None:
    long = "word " * 31
    source = (
        '"""Told once.\n\nAnd somebody."""\n'
        f'raise ConfigError(f"{long}{{x}}.")\n'
        f'log.warning("{"Some words here. " * 21}")\n'
        'raise Problem("a", "it goes on", tag="A")\n'
        'raise error.given_up("it stands", " open")\n'
        'raise ConfigError("All is well. (1) Go. (2) Stay.")\n'
        'x = f"by somebody {y}"\n'
    )
    of_messages, of_lines = offenders(source)
    assert [one.split(": ")[:2] for one in of_messages] == [
        ["4", "a sentence of 32 words, 30 are allowed"],
        ["5", "63 words, 60 are allowed"],
        ["6", "'goes on' is banned"],
        ["9", "somebody"],
    ]
    assert of_lines == ["1: Told"]


if __name__ == "__main__":
    for name, (of_messages, of_lines) in all_offenders().items():
        print(len(of_messages), len(of_lines), name)
