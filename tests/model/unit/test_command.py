"""``python -m model``: its table, its status, and step logs as arguments."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer
from typer.testing import CliRunner

from model.__main__ import main
from semel.testing.step_log import Passed

app = typer.Typer()
app.command()(main)


def write(log: Path, *steps: str) -> str:
    lines = [Passed(7, f"OwnerStep.{step}", "orders", float(at), 1, at, "12:00:00") for at, step in enumerate(steps)]
    log.write_text("".join(json.dumps(asdict(line)) + "\n" for line in lines))
    return str(log)


def test_the_table_and_the_seed() -> None:
    done = CliRunner().invoke(app, ["--only", "no fault", "--seed", "42"])
    assert done.exit_code == 0
    assert "seed 42" in done.output
    assert "holds" in done.output


def test_a_control_says_what_was_found() -> None:
    done = CliRunner().invoke(app, ["--only", "control: no precedence"])
    assert done.exit_code == 0
    assert "found, 27 moves: a duplicate" in done.output


def test_step_logs_are_replayed(tmp_path: Path) -> None:
    good = write(tmp_path / "good", "INITIALISED", "CLAIMED", "PROGRESS_READ")
    bad = write(tmp_path / "bad", "INITIALISED", "PROGRESS_READ", "CLAIMED")
    done = CliRunner().invoke(app, [good])
    assert (done.exit_code, "3 steps of 1 owners" in done.output) == (0, True)
    done = CliRunner().invoke(app, [good, bad])
    assert done.exit_code == 1
    assert "forbids OwnerStep.PROGRESS_READ of process 7" in done.output
