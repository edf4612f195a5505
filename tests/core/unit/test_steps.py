"""Steps: nothing in production, an observer when SEMEL_STEPS names one, each in a process of its own because the
variable is read once.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from semel.steps import (
    ConnectStep,
    MirrorStep,
    OwnerStep,
    ParticipantStep,
    SessionStep,
    SinkStep,
    Step,
    TwoPhaseStep,
    reached,
)

PROGRAM = "from semel.steps import OwnerStep, reached; reached(OwnerStep.BEGUN, 'orders'); print('done')"


def run(directory: Path, observer: str | None, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "SEMEL_STEPS"}
    environment["PYTHONPATH"] = os.pathsep.join([str(directory), *sys.path])
    if observer is not None:
        environment["SEMEL_STEPS"] = observer
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)


def test_without_an_observer_nothing_happens(tmp_path: Path) -> None:
    for nobody in (None, ""):
        done = run(tmp_path, nobody)
        assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)
    reached(OwnerStep.BEGUN, "no observer in this process either")


def test_the_observer_is_told_step_and_detail(tmp_path: Path) -> None:
    (tmp_path / "watcher.py").write_text(
        "def see(step, detail): print(type(step).__name__, step.name, step.value, detail)"
    )
    assert run(tmp_path, "watcher:see").stdout == "OwnerStep BEGUN begun orders\ndone\n"


def test_what_the_observer_raises_is_raised(tmp_path: Path) -> None:
    (tmp_path / "watcher.py").write_text("def see(step, detail): raise RuntimeError('seen ' + detail)")
    done = run(tmp_path, "watcher:see")
    assert done.returncode == 1
    assert "RuntimeError: seen orders" in done.stderr


def test_an_observers_module_may_import_what_has_steps(tmp_path: Path) -> None:
    (tmp_path / "watcher.py").write_text(
        "from semel.steps import OwnerStep, reached\nreached(OwnerStep.CLAIMED)\ndef see(step, detail): print(step)"
    )
    assert run(tmp_path, "watcher:see").stdout == "OwnerStep.BEGUN\ndone\n"


@pytest.mark.parametrize(
    ("observer", "problem"), [("nowhere:see", "ModuleNotFoundError"), ("os:see", "AttributeError")]
)
def test_an_observer_that_is_not_there_is_an_error_at_once(tmp_path: Path, observer: str, problem: str) -> None:
    done = run(tmp_path, observer, "import semel.steps")
    assert done.returncode == 1
    assert problem in done.stderr


def test_names_of_steps_are_the_protocols() -> None:
    assert [step.name for step in OwnerStep] == (
        "INITIALISED CLAIMED PROGRESS_READ MARKERS_CHECKED DECISION_WRITTEN HEALED BEGUN PARTITIONS_ADDED WRITTEN"
        " PROGRESS_WRITTEN OFFSETS_ADDED COMMIT_SENT COMMIT_ANSWERED MARKERS_SEEN EPOCH_SKIPPED"
        " ABORT_SENT ABORT_ANSWERED"
    ).split()
    for protocol in (OwnerStep, ParticipantStep, SinkStep, MirrorStep, TwoPhaseStep, ConnectStep, SessionStep):
        assert issubclass(protocol, Step)
        assert [step.value for step in protocol] == [step.name.lower() for step in protocol]
