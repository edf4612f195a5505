"""Crash points, on real processes that are really killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from semel.steps import OwnerStep, ParticipantStep
from semel.testing.crash import Action, CrashPlan, CrashPoint, observe
from semel.testing.program import run_until, run_until_done
from semel.testing.spark import fork_server

TIMEOUT = 20.0

#: passes three steps in each of four rounds and notes in its second argument how far it has come, as something durable
#: would
WORK = """
import sys
from pathlib import Path
from semel.steps import OwnerStep, reached
state = Path(sys.argv[1])
for done in range(int(state.read_text()) if state.exists() else 0, 4):
    reached(OwnerStep.BEGUN, f"round {done}")
    reached(OwnerStep.COMMIT_SENT)
    state.write_text(str(done + 1))
    reached(OwnerStep.COMMIT_ANSWERED)
"""

ONE_STEP = "from semel.steps import OwnerStep, reached; reached(OwnerStep.BEGUN, 'once'); print('passed')"


@contextmanager
def child(plan: CrashPlan, code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **plan.environment()},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def steps(plan: CrashPlan) -> list[str]:
    return [passed.step.removeprefix("OwnerStep.") for passed in plan.passed()]


def test_without_a_plan_nothing_is_observed(tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SEMEL_")}
    done = subprocess.run([sys.executable, "-c", ONE_STEP], env=clean, capture_output=True, text=True, check=True)
    assert done.stdout == "passed\n"


def test_a_plan_without_points_only_logs(tmp_path: Path) -> None:
    plan = CrashPlan(tmp_path)
    with child(plan, ONE_STEP) as process:
        assert process.wait(TIMEOUT) == 0
        (passed,) = plan.passed()
        assert (passed.pid, passed.step, passed.detail) == (process.pid, "OwnerStep.BEGUN", "once")
        assert passed.time > 0


def test_a_process_is_killed_at_the_step_and_only_the_first_time(tmp_path: Path) -> None:
    point = CrashPoint(OwnerStep.COMMIT_SENT)
    plan = CrashPlan(tmp_path / "plan", point)
    for expected in (-signal.SIGKILL, 0, 0):
        with child(plan, WORK, str(tmp_path / "state")) as process:
            assert process.wait(TIMEOUT) == expected
            if expected:
                assert plan.wait(point, TIMEOUT) == [process.pid]
                assert steps(plan) == ["BEGUN", "COMMIT_SENT"]
    assert (tmp_path / "state").read_text() == "4"
    assert steps(plan).count("COMMIT_SENT") == 5


def test_the_nth_passing_is_counted_over_restarts(tmp_path: Path) -> None:
    points = (
        CrashPoint(OwnerStep.COMMIT_SENT, 2),
        CrashPoint(OwnerStep.BEGUN, 4),
        CrashPoint(OwnerStep.COMMIT_SENT, 4),
    )
    plan = CrashPlan(tmp_path / "plan", *points)
    restarts = run_until_done([sys.executable, "-c", WORK, str(tmp_path / "state")], plan, 5)
    assert restarts == 3
    assert all(plan.struck(point) for point in points)
    assert steps(plan) == [
        *["BEGUN", "COMMIT_SENT", "COMMIT_ANSWERED", "BEGUN", "COMMIT_SENT"],
        *["BEGUN", "COMMIT_SENT", "COMMIT_ANSWERED", "BEGUN"],
        *["BEGUN", "COMMIT_SENT"],
        *["BEGUN", "COMMIT_SENT", "COMMIT_ANSWERED", "BEGUN", "COMMIT_SENT", "COMMIT_ANSWERED"],
    ]
    details = [passed.detail for passed in plan.passed() if passed.step == "OwnerStep.BEGUN"]
    assert details == ["round 0", "round 1", "round 1", "round 2", "round 2", "round 2", "round 3"]


TWO_THREADS = """
import threading
from semel.steps import OwnerStep, reached
from semel.testing import crash

counted, count = threading.Event(), crash._count

def count_and_wait(directory, name, last):
    number = count(directory, name, last)
    if name == "OwnerStep.BEGUN" and number == 1:
        counted.set()
        threading.Event().wait(0.5)
    return number

crash._count = count_and_wait

def other():
    counted.wait()
    reached(OwnerStep.COMMIT_SENT)

threading.Thread(target=other, daemon=True).start()
reached(OwnerStep.BEGUN)
counted.set()
reached(OwnerStep.COMMIT_SENT)
"""


def test_a_point_counted_while_another_thread_is_struck_is_not_spent(tmp_path: Path) -> None:
    plan = CrashPlan(tmp_path / "plan", CrashPoint(OwnerStep.BEGUN), CrashPoint(OwnerStep.COMMIT_SENT))
    assert run_until_done([sys.executable, "-c", TWO_THREADS], plan, 2) == 2


def test_of_many_processes_exactly_one_is_struck(tmp_path: Path) -> None:
    point = CrashPoint(OwnerStep.BEGUN, 5)
    plan = CrashPlan(tmp_path, point)
    code = (
        "import sys; from semel.steps import OwnerStep, reached; sys.stdin.read(); [reached(OwnerStep.BEGUN) for _"
        " in range(50)]"
    )
    environment = {**os.environ, **plan.environment()}
    processes = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE) for _ in range(6)
    ]
    try:
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
        ended = [process.wait(TIMEOUT) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert sorted(ended) == [-signal.SIGKILL, 0, 0, 0, 0, 0]
    assert plan.victims(point) == [processes[ended.index(-signal.SIGKILL)].pid]
    assert len(plan.passed()) in range(251, 301)


@pytest.mark.parametrize("action", [Action.STOP, Action.HANG])
def test_a_stopped_or_held_process_goes_on_when_it_is_released(tmp_path: Path, action: Action) -> None:
    point = CrashPoint(OwnerStep.BEGUN, action=action)
    plan = CrashPlan(tmp_path, point)
    with child(plan, ONE_STEP) as process:
        assert plan.wait(point, TIMEOUT) == [process.pid]
        assert process.poll() is None
        plan.release(point)
        assert process.communicate(timeout=TIMEOUT)[0] == "passed\n"


#: starts a worker below itself, which passes a step; its own command line looks like Spark's Java or like another one's
PARENT = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', sys.argv[1]]))"


def test_an_executor_is_killed_with_its_worker(tmp_path: Path) -> None:
    point = CrashPoint(OwnerStep.BEGUN, action=Action.EXECUTOR)
    plan = CrashPlan(tmp_path, point)
    daemon = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {ONE_STEP!r}]))"
    with child(plan, PARENT, daemon, "org.apache.spark.executor.CoarseGrainedExecutorBackend") as process:
        executor, worker = plan.wait(point, TIMEOUT)
        assert executor == process.pid
        assert process.wait(TIMEOUT) == -signal.SIGKILL
        assert plan.passed()[0].pid == worker


def test_an_executor_is_killed_with_a_worker_that_was_forked_for_it(tmp_path: Path) -> None:
    point = CrashPoint(OwnerStep.BEGUN, action=Action.EXECUTOR)
    plan = CrashPlan(tmp_path, point)
    (tmp_path / "one_step.py").write_text(ONE_STEP)
    worker = f"import subprocess; subprocess.call([{fork_server.python()!r}, '-m', 'one_step'], cwd={str(tmp_path)!r})"
    with child(plan, worker, "org.apache.spark.executor.CoarseGrainedExecutorBackend") as process:
        assert plan.wait(point, TIMEOUT) == [process.pid, plan.passed()[0].pid]
        assert process.wait(TIMEOUT) == -signal.SIGKILL


def test_no_other_process_than_sparks_is_killed(tmp_path: Path) -> None:
    plan = CrashPlan(tmp_path, CrashPoint(OwnerStep.BEGUN, action=Action.EXECUTOR))
    with child(plan, PARENT, ONE_STEP + " ", "java", "-jar", "agent.jar") as process:
        assert process.wait(TIMEOUT) == 1
    assert not plan.struck(plan.points[0])


def test_a_driver_is_killed_with_the_java_that_it_started(tmp_path: Path) -> None:
    point = CrashPoint(OwnerStep.BEGUN, action=Action.DRIVER)
    plan = CrashPlan(tmp_path, point)
    java = "import sys; sys.stdin.read()"
    driver = (
        f"import subprocess, sys\njava = subprocess.Popen([sys.executable, '-c', {java!r},"
        " 'org.apache.spark.deploy.SparkSubmit'], stdin=subprocess.PIPE)\nfrom semel.steps import OwnerStep,"
        " reached\nprint(java.pid, flush=True)\nreached(OwnerStep.BEGUN)\n"
    )
    with child(plan, driver) as process:
        assert process.stdout is not None
        started = int(process.stdout.readline())
        assert plan.wait(point, TIMEOUT) == [started, process.pid]


def test_what_fails_by_itself_is_not_restarted(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"ended with 3, and not by a crash point:\nbroken"):
        run_until_done([sys.executable, "-c", "print('broken'); raise SystemExit(3)"], CrashPlan(tmp_path), 3)


def test_a_kill_that_was_not_planned_is_not_restarted(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="not by a crash point"):
        run_until_done([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], CrashPlan(tmp_path), 3)


def test_a_point_that_never_strikes_is_an_error(tmp_path: Path) -> None:
    plan = CrashPlan(tmp_path, CrashPoint(OwnerStep.BEGUN, 2))
    with pytest.raises(AssertionError, match=r"never struck: OwnerStep.BEGUN:2=kill; passed: \['OwnerStep.BEGUN'\]"):
        run_until_done([sys.executable, "-c", ONE_STEP], plan, 3)


def test_too_many_restarts_and_too_much_time_are_errors(tmp_path: Path) -> None:
    points = [CrashPoint(OwnerStep.BEGUN, n) for n in (1, 2, 3)]
    with pytest.raises(AssertionError, match="more than 1 times"):
        run_until_done([sys.executable, "-c", ONE_STEP], CrashPlan(tmp_path / "1", *points), 1)
    with pytest.raises(AssertionError, match=r"did not end within 0.2 s"):
        run_until_done(
            [sys.executable, "-c", "import threading; threading.Event().wait()"],
            CrashPlan(tmp_path / "2"),
            1,
            timeout=0.2,
        )


def test_waiting_for_what_does_not_come_ends(tmp_path: Path) -> None:
    plan = CrashPlan(tmp_path, CrashPoint(OwnerStep.BEGUN))
    with pytest.raises(TimeoutError, match=r"OwnerStep.BEGUN:1=kill has not struck within 0.05 s"):
        plan.wait(plan.points[0], 0.05)


def test_variables_reach_executors() -> None:
    plan = CrashPlan(Path("/tmp"), CrashPoint(ParticipantStep.SENT, 3, Action.EXECUTOR))
    assert plan.spark_conf() == {f"spark.executorEnv.{name}": value for name, value in plan.environment().items()}
    assert plan.environment()["SEMEL_CRASH"] == "ParticipantStep.SENT:3=executor"


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("OwnerStep.BEGUN", CrashPoint("OwnerStep.BEGUN", 1, Action.KILL)),
        (" OwnerStep.BEGUN:12 ", CrashPoint("OwnerStep.BEGUN", 12, Action.KILL)),
        ("A.B=stop", CrashPoint("A.B", 1, Action.STOP)),
        ("A.B:3=driver", CrashPoint("A.B", 3, Action.DRIVER)),
    ],
)
def test_points_are_read_from_text(text: str, point: CrashPoint) -> None:
    assert CrashPoint.parse(text) == point
    assert CrashPoint.parse(str(point)) == point


@pytest.mark.parametrize("text", ["BEGUN", "A.B:0", "A.B:x", "A.B=die", "A.B:-1", "A.B.C"])
def test_points_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not STEP"):
        CrashPoint.parse(text)


def test_plans_that_cannot_work_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the same"):
        CrashPlan(tmp_path, CrashPoint(OwnerStep.BEGUN), CrashPoint("OwnerStep.BEGUN"))
    with pytest.raises(ValueError, match="nothing would release"):
        run_until_done(["true"], CrashPlan(tmp_path, CrashPoint(OwnerStep.BEGUN, action=Action.STOP)), 1)
    with pytest.raises(ValueError, match="nothing to release"):
        CrashPlan(tmp_path, CrashPoint(OwnerStep.BEGUN)).release(CrashPoint(OwnerStep.BEGUN))


def test_an_observer_without_a_directory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEMEL_CRASH_DIR", raising=False)
    with pytest.raises(ValueError, match="SEMEL_CRASH_DIR"):
        observe(OwnerStep.BEGUN)


def test_the_log_is_json_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMEL_CRASH_DIR", str(tmp_path))
    monkeypatch.delenv("SEMEL_CRASH", raising=False)
    observe(OwnerStep.BEGUN, 'a "detail"\nof two lines')
    (line,) = (tmp_path / "steps.jsonl").read_text().splitlines()
    assert json.loads(line)["detail"] == 'a "detail"\nof two lines'


@pytest.mark.parametrize("first", ["semel.testing.crash", "semel.testing.program", "semel.steps"])
def test_whatever_a_program_imports_first(tmp_path: Path, first: str) -> None:
    """Under a plan, ``semel.steps`` imports the observer's module, which has names of ``semel.steps`` in it."""
    plan = CrashPlan(tmp_path)
    with child(plan, f"import {first}; {ONE_STEP}") as process:
        assert process.wait(TIMEOUT) == 0
    assert steps(plan) == ["BEGUN"]


FOR_EVER = f"{WORK}\nimport time; (Path(sys.argv[1]).with_name('done')).touch(); time.sleep(600)"


def test_a_program_that_does_not_end_is_started_again_until_the_condition_holds(tmp_path: Path) -> None:
    plan = CrashPlan(tmp_path / "plan", CrashPoint(OwnerStep.COMMIT_SENT, 2), CrashPoint(OwnerStep.BEGUN, 4))
    argv = [sys.executable, "-c", FOR_EVER, str(tmp_path / "state")]
    assert run_until(argv, plan, (tmp_path / "done").exists, 2, timeout=TIMEOUT) == 2
    assert (tmp_path / "state").read_text() == "4"


def test_a_condition_that_holds_too_early_waits_for_the_points(tmp_path: Path) -> None:
    plan = CrashPlan(tmp_path / "plan", CrashPoint(OwnerStep.MARKERS_SEEN))
    argv = [sys.executable, "-c", FOR_EVER, str(tmp_path / "state")]
    with pytest.raises(AssertionError, match=r"never struck: \['OwnerStep.MARKERS_SEEN:1=kill'\]"):
        run_until(argv, plan, lambda: True, 1, timeout=1)


def test_a_condition_that_never_holds_ends_the_program(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"did not come true within 1 s; never struck: \[\]"):
        run_until(
            [sys.executable, "-c", "import time; time.sleep(600)"], CrashPlan(tmp_path), lambda: False, 0, timeout=1
        )


@pytest.mark.parametrize("code", ["pass", "raise SystemExit(3)"])
def test_a_program_that_ends_by_itself_is_not_started_again(tmp_path: Path, code: str) -> None:
    with pytest.raises(AssertionError, match="and not by a crash point"):
        run_until([sys.executable, "-c", code], CrashPlan(tmp_path), lambda: False, 5, timeout=TIMEOUT)


def test_a_program_that_is_killed_too_often(tmp_path: Path) -> None:
    plan = CrashPlan(tmp_path / "plan", CrashPoint(OwnerStep.BEGUN, 1), CrashPoint(OwnerStep.BEGUN, 2))
    with pytest.raises(AssertionError, match="was killed more than 1 times"):
        run_until([sys.executable, "-c", FOR_EVER, str(tmp_path / "state")], plan, lambda: False, 1, timeout=TIMEOUT)
