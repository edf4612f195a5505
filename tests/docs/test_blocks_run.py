"""Every Python block of the documents is run, page by page, on one Kafka and one Spark.

A page's blocks share their names, in their order. Comments that begin with ``<!--- invisible-code-block: python`` are run too, and not shown: they
make topics and rows before a block, and look at what it did behind it, with a client that is not ours. They are given the names of :class:`Page`.

What a reader would put in their place is put in its place here: ``localhost:9092`` is the broker, ``/data/`` a new folder, and port 9464 any
that is free. A query that would run for ever ends when it has read what is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from sybil.document import Document
from sybil.example import Example
from sybil.parsers.markdown import CodeBlockParser

from semel.sandbox import Sandbox
from semel.spark import error
from semel.testing.records import read
from tests import topics

ROOT = Path(__file__).parents[2]
SERVERS, FOLDER, PORT = "localhost:9092", "/data/", "(9464)"


class Page:
    """What a page's invisible blocks are given: ``servers``, ``folder``, and these functions."""

    def __init__(self, path: Path, kafka: Sandbox, folder: Path) -> None:
        self.path = path
        self.text = _plain(path.read_text())
        self.servers, self.folder = kafka.bootstrap_servers, f"{folder}/"

    def names(self) -> dict[str, Any]:
        public = {name: getattr(self, name) for name in dir(self) if not name.startswith("_") and name not in ("names", "path", "text")}
        return {"__name__": "__main__", "__file__": str(self.path), **public}

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
        """What it raises: our own error where it is one of ours."""
        try:
            done = action()
            if isinstance(done, StreamingQuery):
                done.awaitTermination()
        except Exception as raised:
            return error(raised) or raised
        raise AssertionError("it did not fail")

    def shows(self, text: object) -> bool:
        """Whether the page has this text, but for line breaks, ids and tokens."""
        wanted = _plain(str(text).replace(self.servers, SERVERS).replace(self.folder, FOLDER))
        assert wanted in self.text, f"the page does not show: {wanted}"
        return True


def _plain(text: str) -> str:
    """Without what differs from run to run: Spark's ids, tokens, line breaks."""
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<id>", text)
    return re.sub(r"\s+", " ", re.sub(r"\bcheckpoint:[0-9a-f]{16}\b", "checkpoint:<token>", text))


def blocks(path: Path) -> list[Example]:
    def never(_: Example) -> None:
        raise AssertionError("blocks are run by hand here, to put names in")

    return list(Document.parse(str(path), CodeBlockParser("python", never)).examples())


def run(path: Path, examples: list[Example], names: dict[str, Any]) -> None:
    for example in examples:
        code = str(example.parsed).replace(SERVERS, names["servers"]).replace(FOLDER, names["folder"]).replace(PORT, "(0)")
        line = example.line + example.parsed.line_offset
        exec(compile("\n" * line + code, str(path), "exec"), names)


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the end of a query is waiting until it has read what is there."""

    def end(query: StreamingQuery, timeout: float | None = None) -> bool:
        try:
            query.processAllAvailable()
            failed = query.exception()
            if failed is not None:
                raise failed
        finally:
            query.stop()
        return True

    monkeypatch.setattr(StreamingQuery, "awaitTermination", end)


@pytest.fixture(scope="module")
def kafka() -> Iterator[Sandbox]:
    """One of their own: the pages name their topics as readers would, and so do others."""
    with Sandbox.start() as started:
        yield started


PAGES = [path for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]) if blocks(path)]


@pytest.mark.usefixtures("ending")
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_page(path: Path, kafka: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    page = Page(path, kafka, tmp_path)
    if path.name == "README.md":  # shown to everybody first: nothing but its one block
        page.create("orders", "priced")
        page.produce("orders", "a", "b")
    run(path, blocks(path), page.names())
    if path.name == "README.md":
        assert page.values("priced") == ["A", "B"]


def test_what_a_block_raises_fails_the_page(kafka: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("# A page\n\n```python\nnumber = 1\n```\n\n<!--- invisible-code-block: python\nassert number == 2\n--->\n")
    with pytest.raises(AssertionError):
        run(path, blocks(path), Page(path, kafka, tmp_path).names())


def test_a_message_that_the_page_does_not_show(kafka: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("It says: `one\ntwo`.")
    page = Page(path, kafka, tmp_path)
    assert page.shows("one two")
    with pytest.raises(AssertionError, match="does not show: one three"):
        page.shows("one three")


def test_a_query_that_fails_is_seen(spark: SparkSession, tmp_path: Path, ending: None) -> None:
    def fail(df: Any, number: int) -> None:
        raise ValueError("on purpose")

    writer = spark.readStream.format("rate").load().writeStream.foreachBatch(fail)
    with pytest.raises(StreamingQueryException, match="on purpose"):
        writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
