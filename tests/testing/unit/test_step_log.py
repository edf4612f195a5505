"""The step log, of real processes: each line is there though its process was killed right behind it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from semel.steps import OwnerStep
from semel.testing.step_log import observe, read

KILLED = """
import os, signal
from semel.steps import OwnerStep, ParticipantStep, reached
for _ in range(2):
    reached(OwnerStep.INITIALISED, "orders")
    reached(OwnerStep.CLAIMED, "orders")
reached(OwnerStep.INITIALISED, "bills")
if os.fork() == 0:
    reached(ParticipantStep.SENT, "out")
    os._exit(0)
os.wait()
reached(OwnerStep.BEGUN, "orders")
os.kill(os.getpid(), signal.SIGKILL)
"""
BUSY = (
    "from semel.steps import OwnerStep, reached; import sys; sys.stdin.read(); [reached(OwnerStep.BEGUN, 'x' *"
    " 200) for _ in range(200)]"
)


def variables(log: Path) -> dict[str, str]:
    return {**os.environ, "SEMEL_STEPS": "semel.testing.step_log:observe", "SEMEL_STEP_LOG": str(log)}


def test_lines_outlive_a_kill(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED], env=variables(tmp_path / "log"), check=False)
    assert killed.returncode == -signal.SIGKILL
    lines = read(tmp_path / "log")
    assert [(line.step, line.detail, line.owner, line.sequence) for line in lines] == [
        ("OwnerStep.INITIALISED", "orders", 1, 1),
        ("OwnerStep.CLAIMED", "orders", 1, 2),
        ("OwnerStep.INITIALISED", "orders", 2, 3),
        ("OwnerStep.CLAIMED", "orders", 2, 4),
        ("OwnerStep.INITIALISED", "bills", 1, 5),
        ("ParticipantStep.SENT", "out", 0, 1),
        ("OwnerStep.BEGUN", "orders", 2, 6),
    ]
    assert len({line.pid for line in lines}) == 2, "a fork counts by itself"
    assert [line.time for line in lines] == sorted(line.time for line in lines)
    assert all(line.clock.endswith("+00:00") for line in lines)


def test_lines_of_several_processes_do_not_mix(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", BUSY], env=variables(tmp_path / "log"), stdin=subprocess.PIPE)
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    lines = sorted(read(tmp_path / "log"), key=lambda line: line.pid)
    for pid, own in groupby(lines, key=lambda line: line.pid):
        assert [line.sequence for line in own] == list(range(1, 201)), (
            f"the lines of process {pid} are there, in their order"
        )


def test_no_log_is_an_empty_one(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == []


def test_an_observer_without_a_file_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEMEL_STEP_LOG", raising=False)
    with pytest.raises(ValueError, match="SEMEL_STEP_LOG"):
        observe(OwnerStep.BEGUN)
