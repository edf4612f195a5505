"""One broker process: started under a watcher, killed, frozen, thawed, stopped, and started again where it was."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from semel.errors import ConfigError
from semel.sandbox import watchdog
from semel.sandbox.processes import stopped
from semel.sandbox.readiness import Answer, ask

__all__ = ["Node"]

_POLL_S = 0.05


class Node:
    """A node of a sandbox: broker and controller. ``id``, ``ports``, ``directory`` and ``log_path`` stay the same over
    restarts.

    ``ports`` are its listeners by their security protocol; ``port`` is the plain one.
    """

    def __init__(
        self,
        *,
        node_id: int,
        ports: Mapping[str, int],
        directory: Path,
        command: Sequence[str],
        cluster_id: str,
        guarded: bool,
    ) -> None:
        self.id = node_id
        self.ports = dict(ports)
        self.port = ports["PLAINTEXT"]
        self.directory = directory
        self.log_path = directory / "server.log"
        self._command = list(command)
        self._cluster_id = cluster_id
        self._guarded = guarded
        self._process: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None
        self._log_start = 0

    @property
    def pid(self) -> int:
        """The process id of the broker's Java; raises when it does not run."""
        if not self.running or self._pid is None:
            raise ConfigError(f"node {self.id} does not run. Start it first.", tag="SANDBOX_STOPPED")
        return self._pid

    @property
    def running(self) -> bool:
        """Whether its process is there, frozen or not."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, the first time or again: same id, port and directory. Returns at once: see :meth:`wait_ready`."""
        if self.running:
            raise ConfigError(
                f"node {self.id} runs already, as process {self.pid}. Nothing was started.", tag="SANDBOX_RUNNING"
            )
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        if self._guarded:
            self._start_guarded()
        else:
            with self.log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._pid = self._process.pid

    def _start_guarded(self) -> None:
        # A session of its own: Ctrl-C in a terminal is for the tests, which then stop their brokers.
        watcher = [sys.executable, "-I", "-S", watchdog.__file__, str(os.getpid()), str(self.log_path), *self._command]
        self._process = subprocess.Popen(watcher, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        assert self._process.stdout is not None
        with self._process.stdout as answer:
            line = answer.readline()
        if not line.strip():
            self._ended()
            raise ConfigError(
                f"the process that watches node {self.id} ended at once. No broker was started.", tag="SANDBOX_FAILED"
            )
        self._pid = int(line)

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        self._signal(signal.SIGKILL)
        self._ended()

    def freeze(self) -> None:
        """SIGSTOP: its connections stay, and nothing is answered once this returns."""
        self._signal(signal.SIGSTOP)
        while not stopped(self.pid):  # the signal is sent, and its threads may run on until one of them takes it
            time.sleep(_POLL_S)

    def thaw(self) -> None:
        """SIGCONT, after :meth:`freeze`."""
        self._signal(signal.SIGCONT)

    def stop(self, timeout: float = 20.0) -> None:
        """SIGTERM, an orderly end; SIGKILL when that takes longer than the timeout.

        Does nothing when it does not run.
        """
        if self._process is not None and self._pid is not None and self.running:
            # It may end by itself between any two of these lines.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM)
                os.kill(self._pid, signal.SIGCONT)
                try:
                    self._process.wait(timeout)
                except subprocess.TimeoutExpired:
                    os.kill(self._pid, signal.SIGKILL)
        self._ended()

    def answer(self) -> Answer | None:
        """Return the cluster that it names; None while it does not serve, or when another one answers on its port."""
        answer = ask(self.port)
        return answer if answer is not None and answer.cluster_id == self._cluster_id else None

    def wait_ready(self, timeout: float = 60.0, *, nodes: int = 1) -> None:
        """Return when it answers as a registered member of its cluster and knows at least ``nodes`` brokers."""
        deadline = time.monotonic() + timeout
        while True:
            answer = self.answer()
            if answer is not None and self.id in answer.brokers and len(answer.brokers) >= nodes:
                return
            if not self.running:
                raise self.failure(f"node {self.id} ended while it started")
            if time.monotonic() > deadline:
                raise self.failure(f"node {self.id} was not ready after {timeout:.0f} s")
            time.sleep(_POLL_S)

    def failure(self, what: str) -> ConfigError:
        """The error of a node that did not come up, with the end of its log."""
        return ConfigError(
            f"{what}. Nothing can be read from or written to it. What {self.log_path} says:\n{self.log_end()}",
            tag="SANDBOX_FAILED",
        )

    def log_end(self, lines: int = 25) -> str:
        """The telling end of its log since it was last started: from the first fatal line on, where there is one."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            text = log.read().decode(errors="replace").splitlines()
        fatal = next(
            (
                number
                for number, line in enumerate(text)
                if " FATAL " in line or " ERROR " in line or "Exception" in line
            ),
            None,
        )
        shown = text[fatal : fatal + lines] if fatal is not None else text[-lines:]
        return "\n".join(f"  {line}" for line in shown)

    def _signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def _ended(self) -> None:
        if self._process is not None:
            status = self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
            if self._guarded and status < 0 and self._pid is not None and sys.platform != "linux":
                # The watcher was killed, and only Linux takes the broker with it.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
        self._process = self._pid = None
