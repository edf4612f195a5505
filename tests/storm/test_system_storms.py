"""Storms of the mirror, streams, Connect and outboxes: a very short one as ``make storm`` runs it, short ones of each,
and of each a control without its guarantee, in which something must be found.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storm.__main__ import SYSTEMS, main
from tests.storm.query_storm import QueryStorm
from tests.storm.storm import Outcome, Plan

#: In the first 5 s of an outbox's storm a program, PostgreSQL and the broker are killed.
SOON = 64991
SECONDS, CONTROL_SECONDS = 30.0, 45.0
NEW = [name for name in SYSTEMS if name != QueryStorm.system]


@pytest.mark.exhaustive
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--system", "outbox", "--minutes", "0.08", "--seed", str(SOON), "--nodes", "1"]
    assert main([*given, "--kept", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert f"outbox, seed {SOON}: " in said
    assert "database and topics have the same rows" in said


@pytest.mark.exhaustive
@pytest.mark.parametrize("system", NEW)
def test_a_short_storm(system: str, tmp_path: Path) -> None:
    outcome = storm(system, Plan(7, SECONDS), tmp_path)
    assert outcome.problems == [], f"logs in {tmp_path}"
    assert outcome.rows > 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("system", NEW)
def test_control_without_its_guarantee_something_is_wrong(system: str, tmp_path: Path) -> None:
    outcome = storm(system, Plan(5, CONTROL_SECONDS, control=True), tmp_path)
    assert any("not exactly once" in problem for problem in outcome.problems), outcome.problems


def storm(system: str, plan: Plan, directory: Path) -> Outcome:
    with SYSTEMS[system](plan, directory) as made:
        return made.run()
