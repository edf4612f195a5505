"""A page of the documents, its blocks run in their order, on one Kafka and one Spark.

Python blocks share their names. Shell blocks are run in one folder; what a ``console`` block shows as printed must have
been printed. Comments that begin with ``<!--- invisible-code-block: python`` are run too, and not shown: they make
topics and rows before a block, and look at what it did behind it, with a client that is not ours. They are given the
names of :class:`Page`.

What a reader would put in their place is put in its place here: ``localhost:9092`` is the broker, ``/data/`` and
``/tmp/`` a new folder, and what invisible blocks put into ``instead``. In front of a shell block may stand ``<!--- not
run: WHY --->``, or ``<!--- with other numbers --->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql.streaming.query import StreamingQuery
from sybil.document import Document
from sybil.example import Example
from sybil.parsers.markdown import CodeBlockParser

from semel.sandbox import Sandbox
from semel.sandbox.ports import Ports
from semel.spark import error
from semel.testing.records import read
from tests.docs.support.shell import Shell, session, squeezed, steps
from tests.support import topics

SERVERS, FOLDER = "localhost:9092", "/data/"
SHELL = ("bash", "console", "dockerfile")
_GIVEN = ("servers", "folder", "instead", "during", "create", "produce", "values", "failure", "shows", "with_status")
_START = "semel broker start"
_NOT_RUN = re.compile(r"<!--- not run: ([^\n]+) --->\s*\Z")
_OTHER_NUMBERS = re.compile(r"<!--- with other numbers --->\s*\Z")


def blocks(path: Path, *languages: str) -> list[Example]:
    """Return the blocks in these languages, also invisible ones, in their order."""

    def never(_: Example) -> None:
        raise AssertionError("these are to be looked at")

    return list(Document.parse(str(path), *(CodeBlockParser(name, never) for name in languages)).examples())


def not_run(block: Example) -> str | None:
    """Why not, as the page has it; None for a block that is run."""
    found = _NOT_RUN.search(block.document.text[: block.start])
    return found[1] if found else None


def _read(block: Example) -> tuple[str, str, list[str]]:
    """Parse a shell block in any of the languages, as :func:`session`."""
    language = block.document.text[block.start :].partition("\n")[0].removeprefix("```")
    if language == "console":
        return session(block.parsed)
    return steps(block.parsed) if language == "dockerfile" else block.parsed, "", []


class Page:
    """The names that a page's invisible blocks may use: ``servers``, ``folder``, ``instead``, and these functions."""

    def __init__(self, path: Path, kafka: Sandbox, folder: Path) -> None:
        self._path, self._folder = path, folder
        self._given = ExitStack()
        self.servers, self.folder = kafka.bootstrap_servers, f"{folder}/"
        #: What is run in place of what the page has.
        self.instead = {
            SERVERS: self.servers,
            "broker:9092": self.servers,
            FOLDER: self.folder,
            "/tmp/": self.folder,
            "(9464)": "(0)",
        }

    def run(self) -> None:
        """Run all blocks. Raises what the first one raises that fails."""
        parsers = [
            CodeBlockParser("python", self._run_python),
            *(CodeBlockParser(name, self._run_shell) for name in SHELL),
        ]
        document = Document.parse(str(self._path), *parsers)
        document.namespace.update(
            {name: getattr(self, name) for name in _GIVEN}, __name__="__main__", __file__=str(self._path)
        )
        with self._given:
            for block in document.examples():
                block.evaluate()

    def _run_python(self, block: Example) -> None:
        line = block.line + block.parsed.line_offset
        shown = block.document.text.startswith("```", block.start)
        code = self._in_place(block.parsed) if shown else block.parsed
        exec(compile("\n" * line + code, str(self._path), "exec"), block.namespace)

    def _run_shell(self, block: Example) -> None:
        if not_run(block) is not None:
            return
        shell, numbers = self._shell, not _OTHER_NUMBERS.search(block.document.text[: block.start])
        commands, typed, shown = _read(block)
        printed = shell.run(self._in_place(commands), typed or "y\n")
        for line in map(self._in_place, shown):
            where = f"line {block.line} of {self._path.name} shows:\n{line}\nwas printed:\n{printed}"
            assert squeezed(line, numbers=numbers) in squeezed(printed, numbers=numbers), where

    @cached_property
    def _shell(self) -> Shell:
        shell = Shell(self._folder)
        if _START in self._path.read_text():
            ports = Ports(1)
            self._given.callback(ports.release)
            self._given.callback(shell.run, "semel broker stop")
            self.instead[_START] = f"{_START} --port {ports.numbers[0]}"
        return shell

    def _in_place(self, text: str) -> str:
        longest_first = sorted(self.instead, key=len, reverse=True)
        return re.sub("|".join(map(re.escape, longest_first)), lambda found: self.instead[found[0]], text)

    def _as_shown(self, text: str) -> str:
        return text.replace(self.servers, SERVERS).replace(self.folder, FOLDER)

    def during(self, given: AbstractContextManager[Any]) -> Any:
        """Enter a context manager until the end of the page, and return its value."""
        return self._given.enter_context(given)

    def with_status(self, status: int, command: str) -> str:
        """Return a command for ``instead`` that must end with this status."""
        return f"""sh -c '"$@"; test $? = {status}' - {command}"""

    def create(self, *names: str, partitions: int = 2, **config: Any) -> None:
        """Topics; those that are there stay as they are."""
        for name in names:
            topics.create(self.servers, name, partitions, **config)

    def produce(self, topic: str, *rows: str | bytes | None, key: Callable[[int], str] | None = str) -> None:
        """Values, each with its number as its key, spread by their keys."""
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True})
        for number, value in enumerate(rows):
            producer.produce(topic, value, key=None if key is None else key(number))
        assert producer.flush(60) == 0

    def values(self, topic: str) -> list[str]:
        """Sorted, as a read_committed reader sees them."""
        return sorted(map(str, read(self.servers, [topic], {"value": "value"}, missing="null")["value"].to_pylist()))

    def failure(self, action: Callable[[], object]) -> Exception:
        """Return the error that the action raises, as our own if it contains one."""
        try:
            done = action()
            if isinstance(done, StreamingQuery):
                done.awaitTermination()
        except Exception as raised:
            return error(raised) or raised
        raise AssertionError("it did not fail")

    def shows(self, text: object) -> bool:
        """Return whether the page has this text, except for line breaks, ids and tokens."""
        wanted = squeezed(self._as_shown(str(text)))
        assert wanted in squeezed(self._path.read_text()), f"the page does not show: {wanted}"
        return True
