"""What is fetched is shown while it comes: a bar on a terminal, lines elsewhere.

By Ivy itself, from a Maven repository of files.
"""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from semel.sandbox import ivy

THINGS = 12
FETCH = """
import sys
from pathlib import Path
from semel.sandbox.ivy import retrieve
retrieve(sys.argv[1], "Things", Path("jars"), cache=Path("cache"), progress=True)
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A program that fetches the things of a repository into a folder ``jars`` where it runs."""
    for number in range(THINGS):
        folder = tmp_path / "repository" / "example" / f"thing{number}" / "1"
        folder.mkdir(parents=True)
        (folder / f"thing{number}-1.jar").write_bytes(bytes(100))
        pom = f"<groupId>example</groupId><artifactId>thing{number}</artifactId><version>1</version>"
        (folder / f"thing{number}-1.pom").write_text(f"<project><modelVersion>4.0.0</modelVersion>{pom}</project>")
    monkeypatch.setenv("SEMEL_MAVEN", (tmp_path / "repository").as_uri())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    wanted = "".join(
        f'<dependency org="example" name="thing{number}" rev="1" conf="default->default"/>' for number in range(THINGS)
    )
    module = '<ivy-module version="2.0"><info organisation="example" module="things"/>'
    return [sys.executable, "-c", FETCH, f"{module}<dependencies>{wanted}</dependencies></ivy-module>"]


def test_on_a_terminal_a_bar_fills(command: list[str]) -> None:
    screen, terminal = pty.openpty()
    with (
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=terminal) as process,
        os.fdopen(screen, "rb", buffering=0) as output,
    ):
        os.close(terminal)
        shown = "".join(part.decode(errors="replace") for part in iter(lambda: _read(output), b""))
    assert process.returncode == 0
    assert "Things: downloading" in shown
    assert f"{THINGS}/{THINGS}" in shown
    assert "━" in shown
    assert len(list(Path("jars").iterdir())) == THINGS


def _read(screen: io.FileIO) -> bytes:
    try:
        return screen.read(65536)
    except OSError:  # so Linux says that nobody has the terminal open any more
        return b""


def test_elsewhere_there_is_a_line_now_and_then(command: list[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    first, *more = done.stderr.splitlines()
    assert first == "fetching Things (tens of megabytes, the first time only)"
    assert more == [f"fetching Things: 10 of {THINGS} files"]
    assert len(list(Path("jars").iterdir())) == THINGS


def test_jars_are_fetched_alone_and_kept(command: list[str]) -> None:
    pom = Path("repository/example/thing0/1/thing0-1.pom")
    needed = "<groupId>example</groupId><artifactId>thing1</artifactId><version>1</version>"
    other = f"<dependencies><dependency>{needed}</dependency></dependencies>"
    pom.write_text(pom.read_text().replace("</project>", f"{other}</project>"))
    for _ in range(2):
        (jar,) = ivy.kept(Path("home"), [("example", "thing0", "1")], "Things", progress=False)
        assert jar.name == "thing0-1.jar"
        pom.unlink(missing_ok=True)  # the second time nothing is asked for
