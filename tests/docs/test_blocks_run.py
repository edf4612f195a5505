"""Every Python block and every shell block of the documents is run, page by page; what is not run, and what is only
looked at, stands here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from semel.sandbox import Sandbox
from tests.docs.support.page import SHELL, Page, blocks, not_run

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
#: The longest begin at once, each in a process of its own: these are handed two pages first, and then one by one.
FIRST = ("deploy", "versions", "README", "metrics", "quickstart", "reliability", "operations", "testing")
PAGES = sorted(
    (path for path in DOCUMENTS if blocks(path, "python", *SHELL)),
    key=lambda path: [*FIRST, path.stem].index(path.stem),
)
PIPELINE = "python examples/pipeline.py"


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


@pytest.fixture
def kafka() -> Iterator[Sandbox]:
    """One for each page: they name their topics as readers would, several of them alike."""
    with Sandbox.start() as started:
        yield started


def prepare_readme(page: Page) -> None:
    """It has no invisible blocks, since everybody is shown it first.

    Its two pipelines are one query; Ctrl-C is pressed when all is written.
    """
    page.create("orders", "priced", "priced-too", "daily-report")
    page.produce("orders", "a", "b")
    page.instead[PIPELINE] = (
        f"{sys.executable} {ROOT}/tests/docs/support/press_ctrl_c.py {page.servers} priced 2004 {PIPELINE}"
    )
    page.instead["pip install"] = "pip install --dry-run"  # .venv is active
    page.instead["/tmp/priced-checkpoint"] = f"{page.folder}priced"


@pytest.mark.usefixtures("ending", "spark")
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_page(path: Path, kafka: Sandbox, tmp_path: Path) -> None:
    page = Page(path, kafka, tmp_path)
    if path.name == "README.md":
        prepare_readme(page)
    page.run()
    if path.name == "README.md":
        assert page.values("priced") == sorted([*"AB", "FIRST", "SECOND", *["PAID"] * 2_000])
        assert page.values("priced-too") == [*"AB"]


def test_what_a_block_raises_fails_the_page(kafka: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(
        "# A page\n\n```python\nnumber = 1\n```\n\n<!--- invisible-code-block: python\nassert number == 2\n--->\n"
    )
    with pytest.raises(AssertionError):
        Page(path, kafka, tmp_path).run()


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


@pytest.mark.parametrize(
    ("fence", "wrong"),
    [
        ("console\n$ cat semel/py.typed > made && echo one two \\\n    three\none  two three", None),
        ("console\n$ echo -n 'Really? [y/N]: ' && read answer && echo $answer\nReally? [y/N]: y\ny", None),
        ("bash\ntest -z $PYTHONPATH$SPARK_HOME", None),
        ("console\n$ echo 12 rows\n13 rows", "13 rows"),
        ("console\n$ echo one\ntwo", "two"),
        ("console\n$ false\n$ true", "status 1"),
        ("bash\nfalse | true", "status 1"),
        ("dockerfile\nFROM nowhere\nRUN test -f LICENSE && \\\n    true", None),
        ("dockerfile\nRUN false", "status 1"),
    ],
)
def test_a_shell_block_that_is_wrong_is_seen(fence: str, wrong: str | None, kafka: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"# A page\n\n```{fence}\n```\n")
    page = Page(path, kafka, tmp_path)
    if wrong is None:
        page.run()
    else:
        with pytest.raises(AssertionError, match=wrong):
            page.run()


def test_other_numbers_are_said_to_be_others(kafka: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("<!--- with other numbers --->\n```console\n$ echo 12 rows\n13 rows\n```\n")
    Page(path, kafka, tmp_path).run()


def test_what_is_not_run() -> None:
    """All of it, with the reason that the page gives: what is added here is run by nobody."""
    found = [
        (path.name, why) for path in PAGES for block in blocks(path, *SHELL) if (why := not_run(block)) is not None
    ]
    assert sorted(found) == [
        ("README.md", "they run this check themselves, and `tests/spark/broker/test_examples.py` runs the demo"),
        ("reliability.md", "half an hour and two hours; a short one is `tests/storm/test_storm.py`"),
        ("versions.md", "a quarter of an hour for each version"),
        ("versions.md", "half an hour for each version, and its outcome is above"),
    ]


def test_every_fence_is_of_a_language_that_is_run_or_of_one_that_is_shown() -> None:
    languages: dict[str, list[str]] = {}
    for path in DOCUMENTS:
        inside = False
        for line in path.read_text().splitlines():
            if line.startswith("```"):
                inside = not inside
                if inside:
                    languages.setdefault(line.removeprefix("```"), []).append(path.name)
    shown = {name for name in languages if name not in ("python", *SHELL)}
    assert shown - {""} == {"diff", "json", "mermaid", "text", "yaml"}
    bare = [
        match
        for path in DOCUMENTS
        for match in re.findall(r"^```\n((?:(?!```).*\n)+)```$", path.read_text(), re.MULTILINE)
    ]
    assert [text for text in bare if "$ " in text or "make " in text] == []
