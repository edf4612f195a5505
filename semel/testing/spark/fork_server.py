"""A Python that Spark starts quickly: forks of one process that has imported what all of Spark's Python processes
import.

Spark starts a Python process for each query that reads, for each kind of planning, and as the daemon of its workers.
Each imports PySpark, numpy, pyarrow and kafka-python, which takes the better part of a second. :func:`python` is an
executable for ``PYSPARK_PYTHON``: it has a server fork the process (``fork_client`` is its other half), and stays for
as long as that lives. What Spark does to the one happens to the other.

What is semel's own is never imported ahead: each process reads it, and the variables that it looks at, anew.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import marshal
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from semel.testing.spark import fork_client

__all__ = ["python"]

_AHEAD = (
    "cramjam",
    "crc32c",
    "kafka",
    "numpy.typing",
    "pyarrow.compute",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.worker",
)
_running: list[subprocess.Popen[bytes]] = []


@cache
def python() -> str:
    """The executable.

    Its server is started by the first call of a process, and ends with that process, however it ends.
    """
    directory = Path(tempfile.mkdtemp(prefix="semel-python-"))
    address, executable = directory / "socket", directory / "python"
    client = [sys.executable, "-IS", str(Path(fork_client.__file__)), str(address)]
    executable.write_text(f'#!/bin/sh\nexec {shlex.join(client)} "$@"\n')
    executable.chmod(0o755)
    argv = [sys.executable, "-m", "semel.testing.spark.fork_server", str(address)]
    # a session of its own: an interrupt from the terminal is for those who know what they are in the middle of
    server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    _running.append(server)
    assert server.stdout is not None
    if not server.stdout.readline():
        raise RuntimeError(f"the server that forks Python processes ended with {server.wait()}: what it said is above")
    return str(executable)


def _main(address: str) -> None:
    for name in _AHEAD:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        print("ready", flush=True)
        connection = _await_child(listener)
    if connection is None:
        shutil.rmtree(Path(address).parent)
    else:
        _become(connection)


def _await_child(listener: socket.socket) -> socket.socket | None:
    """Fork for each client.

    Returns in each child with its client's connection, and in the server, when its parent is gone, with None.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    parent = sys.stdin.fileno()
    while True:
        ready = select.select([parent, listener], [], [])[0]
        if parent in ready:
            return None
        connection, _ = listener.accept()
        if os.fork() == 0:
            return connection
        connection.close()


def _become(connection: socket.socket) -> None:
    """Be the process that the client was started as."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, handles, _, _ = socket.recv_fds(connection, fork_client.HEAD, 4)
    arguments, environment = marshal.loads(connection.recv(int.from_bytes(head), socket.MSG_WAITALL))
    for number, handle in enumerate(handles[:3]):
        os.dup2(handle, number)
    os.fchdir(handles[3])
    for handle in handles:
        os.close(handle)
    os.environ.clear()
    os.environ.update(environment)
    path = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [str(Path.cwd()), *(entry for entry in path if entry and entry not in sys.path)]
    _end_with(connection)
    sys.argv = arguments[1:]
    runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)


def _end_with(connection: socket.socket) -> None:
    """Let the kernel end this process when its client has ended: the signal of input that is not waited for does,
    unless a handler is set.
    """
    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection, fcntl.F_SETFL, fcntl.fcntl(connection, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([connection], [], [], 0)[0]:
        sys.exit("the program that started this process has ended already")


if __name__ == "__main__":
    _main(sys.argv[1])
