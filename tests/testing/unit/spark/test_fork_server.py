"""Processes that are forked are like those that are started: what they are told, what they see, and how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.sandbox.processes import alive
from semel.testing.spark import fork_server
from tests.support.waiting import wait_for

SEEN = """
import json, os, sys
print(json.dumps({"arguments": sys.argv[1:], "name": __name__, "directory": os.getcwd(), "path": sys.path,
                  "pid": os.getpid(), "parent": os.getppid(),
                  "variables": dict(os.environ), "input": sys.stdin.read(), "ahead": "kafka" in sys.modules,
                  "semel": sorted(name for name in sys.modules if name.startswith("semel."))}))
print("said beside", file=sys.stderr)
"""
HELD = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that waits for the end of its input. It has printed its id."""
    (tmp_path / "held.py").write_text(HELD)
    argv = [fork_server.python(), "-m", "held"]
    with subprocess.Popen(argv, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


def forked(started: subprocess.Popen[str]) -> int:
    assert started.stdout is not None
    pid = int(started.stdout.readline())
    assert pid != started.pid
    assert alive(pid)
    return pid


def test_it_sees_what_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(SEEN)
    (tmp_path / "further").mkdir()
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "further"), "GIVEN": "a b\nc"}
    argv = [fork_server.python(), "-m", "seen", "one", "two words"]
    done = subprocess.run(argv, cwd=tmp_path, env=variables, input="typed", capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout)
    assert (seen["arguments"], seen["name"], seen["directory"], seen["input"]) == (
        ["one", "two words"],
        "__main__",
        str(tmp_path),
        "typed",
    )
    assert {name: seen["variables"].get(name) for name in variables} == variables
    assert "HOME" in os.environ
    assert "HOME" not in seen["variables"]
    assert seen["path"][:2] == [str(tmp_path), str(tmp_path / "further")]
    assert seen["parent"] != os.getpid()
    assert done.stderr == "said beside\n"


def test_others_modules_are_there_and_ours_are_read_anew(tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(SEEN)
    done = subprocess.run(
        [fork_server.python(), "-m", "seen"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    seen = json.loads(done.stdout)
    assert seen["ahead"]
    parents = ["semel._version", "semel.testing", "semel.testing.spark"]
    assert seen["semel"] == [*parents, "semel.testing.spark.fork_client"]


def test_what_is_no_module_is_run_by_python_itself() -> None:
    done = subprocess.run(
        [fork_server.python(), "-c", "import os; print(os.getppid())"], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == os.getpid()


@pytest.mark.parametrize("deadly", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_process_that_was_started(started: subprocess.Popen[str], deadly: signal.Signals) -> None:
    pid = forked(started)
    started.send_signal(deadly)
    wait_for(lambda: not alive(pid), "the end of what was forked")


def test_the_process_that_was_started_ends_with_it(started: subprocess.Popen[str]) -> None:
    os.kill(forked(started), signal.SIGKILL)
    started.wait(60)


def test_the_end_of_its_input_is_seen(started: subprocess.Popen[str]) -> None:
    pid = forked(started)
    assert started.stdin is not None
    started.stdin.close()
    assert started.wait(60) == 0
    wait_for(lambda: not alive(pid), "the end of what was forked")


def test_the_server_ends_with_the_process_that_asked_for_it() -> None:
    prints = "from semel.testing.spark import fork_server; print(fork_server.python(), flush=True)"
    asks = f"{prints}; import sys; sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", asks], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        executable = Path(process.stdout.readline().strip())
        assert executable.exists()
        process.kill()
    wait_for(lambda: not executable.parent.exists(), "the end of the server")
