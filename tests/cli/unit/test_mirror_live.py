"""The figures of a mirror below its log, on a terminal of its own. Lines of other processes come above them too."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.terminal import OnTerminal
from tests.support.waiting import PATIENCE_S

#: Two flows, and a process that writes where Spark's Java does.
PROGRAM = """
import logging, subprocess, sys
from pathlib import Path
from semel.cli.mirror.live import live
from semel.mirror.config.properties import read_properties
from semel.mirror.meter import Doing, FlowMeter
logging.basicConfig(level=logging.INFO, format="%(message)s")
with live():
    there, back = map(FlowMeter, read_properties(Path(sys.argv[1])).flows)
    there.set_lag({("orders", 0): 1_000, ("orders", 1): 500})
    for number in range(1, 6):
        there.add({("A.orders", 0): (1_000, 1)})
        logging.info("round %d of A->B", number)
        subprocess.run(["sh", "-c", f"echo line {number} of another process >&2"], check=True)
    subprocess.run(["sh", "-c", "printf 'half a line' >&2"], check=True)
    back.doing = Doing.ENDED
print("ended", file=sys.stderr)
"""
FIGURES = [
    r" *flow +records +records/s +lag +last commit",
    r" *A->B +5,000 +[\d,]+ +1,500 +\d+ s ago +behind",
    r" *B->A +0 +0 +- +- +stopped",
]
LOG = [line for n in range(1, 6) for line in (f"round {n} of A->B", f"line {n} of another process")]


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    file = tmp_path / "mm2.properties"
    servers = "A.bootstrap.servers = localhost:1\nB.bootstrap.servers = localhost:2\n"
    file.write_text(f"clusters = A, B\n{servers}A->B.enabled = true\nB->A.enabled = true\n")
    return [sys.executable, "-c", PROGRAM, str(file)]


def test_on_a_terminal_figures_are_below_the_log(command: list[str]) -> None:
    with OnTerminal(command) as program:
        assert program.wait() == 0, program.raw()
    assert "\x1b[?25l" in program.raw()
    assert program.raw().rindex("\x1b[?25h") > program.raw().rindex("\x1b[?25l")  # the cursor is there again
    shown = [line for line in program.lines() if line]
    assert [line for line in shown if line in LOG or "half" in line] == [*LOG, "half a line"], program.raw()
    *figures, ended = shown[-4:]
    assert all(map(re.fullmatch, FIGURES, figures)), program.raw()
    assert ended == "ended"


def test_elsewhere_there_is_the_log_alone(command: list[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr.splitlines()) == ("", [*LOG, "half a lineended"])


def test_a_terminal_that_is_gone_holds_up_nobody() -> None:
    """More is written than a pipe takes. In the end, nobody has read it."""
    program = "import subprocess, sys; from semel.cli.mirror.live import live\nwith live():\n"
    program += "    sys.stdin.readline(); subprocess.run(['sh', '-c', 'seq 100000 >&2'], check=True)\n"
    master, terminal = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=terminal) as process:
        os.close(terminal)
        assert os.read(master, 1), "the figures"
        os.close(master)
        process.communicate(b"\n", timeout=PATIENCE_S)
    assert process.returncode == 0
