"""Starts the pipeline often and at once: a process that has imported everything forks the next owner when it is asked
to.

Each owner is a process of its own, killed, frozen and waited for like any other; only the seconds of importing are
spent once. Run as a program it takes one JSON line for each order on its standard input: ``start`` answers a process
id, ``wait`` answers how that process ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from semel.errors import Fenced
from tests.session.support import session_worker
from tests.session.support.session_worker import SessionJob
from tests.streams.support import streams_worker
from tests.streams.support.streams_worker import StreamsJob
from tests.transaction.support import pipeline
from tests.transaction.support.pipeline import FENCED, Job

if TYPE_CHECKING:  # the program's own steps name that module as their observer: it must not be imported before them
    from semel.testing.crash import CrashPlan

_ROOT = Path(__file__).parents[2]
_POLL_S = 0.005
#: What an order may start, by the name of its job.
_PROGRAMS: dict[str, Callable[[Any], None]] = {
    "Job": lambda job: pipeline.run(Job(**job)),
    "SessionJob": lambda job: session_worker.run(SessionJob(**job)),
    "StreamsJob": lambda job: streams_worker.run(StreamsJob(**job)),
}


AnyJob = Job | SessionJob | StreamsJob


@dataclass(frozen=True)
class Owner:
    """A running owner."""

    nursery: Nursery
    pid: int
    log: Path

    def wait(self, timeout: float = 120) -> int:
        """Wait for its end: its exit status, or minus the signal that ended it."""
        status = self.nursery.order({"do": "wait", "pid": self.pid, "timeout": timeout})["status"]
        if status is None:
            raise AssertionError(f"the owner did not end within {timeout} s:\n{self.said()}")
        return int(status)

    def close(self) -> None:
        """SIGKILL, whatever it is at; nothing if it has ended."""
        self.nursery.order({"do": "wait", "pid": self.pid, "timeout": 0})

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]


class Nursery:
    """The process that forks owners. A context manager that ends it."""

    def __init__(self) -> None:
        variables = {**os.environ, "SEMEL_STEPS": "semel.testing.crash:observe", "PYTHONPATH": str(_ROOT)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forked_owners"],
            cwd=_ROOT,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def start(self, job: AnyJob, plan: CrashPlan, log: Path) -> Owner:
        """Start a new owner under a plan."""
        return Owner(
            self,
            int(
                self.order(
                    {
                        "do": "start",
                        "program": type(job).__name__,
                        "job": asdict(job),
                        "plan": plan.environment(),
                        "log": str(log),
                    }
                )["pid"]
            ),
            log,
        )

    def order(self, what: Mapping[str, object]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def run_until_done(self, job: AnyJob, plan: CrashPlan, max_restarts: int, log: Path) -> int:
        """Start owners until one ends well; each must have been killed by a point of the plan. Returns the restarts."""
        for restarts in range(max_restarts + 1):
            before = sum(map(plan.struck, plan.points))
            owner = self.start(job, plan, log)
            status = owner.wait()
            if status == 0:
                plan.check_all_struck()
                return restarts
            assert status == -signal.SIGKILL, f"it ended with {status}:\n{owner.said()}"
            assert sum(map(plan.struck, plan.points)) > before, f"killed, and by no crash point:\n{owner.said()}"
        raise AssertionError(f"killed more than {max_restarts} times")


# ---- inside the program


def _serve() -> None:
    pa.array([b""])  # pyarrow imports much more behind its first array
    for line in sys.stdin:
        what = json.loads(line)
        answer = {"pid": _start(what)} if what["do"] == "start" else {"status": _wait(what["pid"], what["timeout"])}
        print(json.dumps(answer), flush=True)


def _start(what: Mapping[str, Any]) -> int:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = _be_owner(what["program"], what["job"], what["plan"], what["log"])
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return pid


def _be_owner(program: str, job: Mapping[str, Any], plan: Mapping[str, str], log: str) -> int:
    os.environ.update(plan)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, output), (2, output)):
        os.dup2(source, target)
    try:
        _PROGRAMS[program](job)
    except Fenced as error:
        print(error)
        return FENCED
    return 0


def _wait(pid: int, timeout: float) -> int | None:
    end = time.monotonic() + timeout
    try:
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return None
            threading.Event().wait(_POLL_S)
    except ChildProcessError:  # it was waited for before
        return None


if __name__ == "__main__":
    _serve()
