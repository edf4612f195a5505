"""Workers as processes of one machine: one that is killed comes back, and after an error none is left."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from semel.sandbox.processes import alive
from semel.streams.worker.processes import Workers
from tests.support.waiting import wait_for

#: Writes its process id, and ends with its pipe.
WORKER = "import os, sys; open(sys.argv[1] + str(os.getpid()), 'w').close(); sys.stdin.read()"
FAILS = "import sys; sys.exit(3)"


def test_a_killed_one_is_started_again_and_all_end_with_the_command(tmp_path: Path) -> None:
    workers = Workers(lambda number: [sys.executable, "-c", WORKER, f"{tmp_path}/{number}-"], 2)
    stop, ended = threading.Event(), []
    running = threading.Thread(target=lambda: ended.append(workers.run(stop)))
    running.start()

    def started() -> list[Path]:
        return sorted(tmp_path.iterdir())

    def pids() -> list[int]:
        return [int(path.name.split("-")[1]) for path in started()]

    wait_for(lambda: len(started()) == 2, "two processes")
    os.kill(pids()[0], signal.SIGKILL)
    wait_for(lambda: len(started()) == 3, "the third one")
    assert [path.name[0] for path in started()] == ["0", "0", "1"]
    stop.set()
    running.join(60)
    assert ended == [True]
    assert not any(alive(pid) for pid in pids())


def test_an_error_ends_all(tmp_path: Path) -> None:
    programs = [WORKER, FAILS]
    workers = Workers(lambda number: [sys.executable, "-c", programs[number], f"{tmp_path}/"], 2)
    assert not workers.run(threading.Event())
    assert not any(alive(int(path.name)) for path in tmp_path.iterdir())
