"""What `semel mirror FILE` shows on a terminal: figures of each flow below its log, until Ctrl-C.

Without a terminal: `tests/mirror/crash/test_kills.py`, `test_executors_are_killed_at_each_step_of_a_task`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from tests.mirror.support.harness import alias_of, mm2, produce, unique
from tests.support import topics
from tests.support.terminal import OWN_TERMINAL, OnTerminal
from tests.support.waiting import wait_for

_PROGRAM = f"{OWN_TERMINAL} from semel.cli import main; main()"


@pytest.mark.exhaustive
def test_figures_are_shown_below_the_log_until_ctrl_c(a: Sandbox, b: Sandbox, tmp_path: Path) -> None:
    topic = topics.create(a.bootstrap_servers, unique("shown"), 2)
    produce(a, topic, [{"value": f"{i}"} for i in range(1_234)])
    file = mm2(tmp_path, a, b, topic)
    flow = re.escape(f"{alias_of(file)}->B")
    with OnTerminal([sys.executable, "-c", _PROGRAM, "mirror", str(file), "--master", "local[2]"]) as program:
        shown = re.compile(rf" *{flow} +1,234 +[\d,]+ +0 +\d+ s ago +up to date")
        wait_for(lambda: any(map(shown.fullmatch, program.lines())), program.raw)
        program.type(b"\x03")
        assert program.wait() == 0, program.raw()
    assert re.fullmatch(rf" *{flow} +1,234 .* stopped", [line for line in program.lines() if line][-1])
    logged = [line for line in program.lines() if re.search(" (INFO|WARNING) ", line)]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d [\d:,]+ (INFO|WARNING) \S.*", line) for line in logged), logged
    for said in ("1 topics, of 2 partitions", "round 1: 1234 records", "SIGINT: the round is ended, then it stops"):
        assert [said in line for line in logged].count(True) == 1, logged
