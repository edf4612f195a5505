"""A trace is read as a step log: who, what, the answer, and the steps in capitals."""

from __future__ import annotations

import re

from model.explore import explore
from model.settings import by_name
from model.trace import lines


def test_it_is_read_as_a_step_log() -> None:
    (found,) = explore(by_name("control: no precedence")).found
    told = list(lines(found.trace))
    assert told[0].split() == ["1", "A", "starts"]
    assert any("InitProducerId: 1/1" in line and line.endswith("INITIALISED") for line in told)
    assert any("A           rows 0 to out-0 as 1/1: OK" in line and line.endswith("WRITTEN") for line in told)
    assert any(
        "EndTxn(commit) as 1/1: OK, go on as 1/2" in line and line.endswith("COMMIT_SENT COMMIT_ANSWERED")
        for line in told
    )
    assert any(re.search(r"\d ! A           crashes$", line) for line in told), "a fault is marked"
    assert "the marker commit on" in told[-1]
