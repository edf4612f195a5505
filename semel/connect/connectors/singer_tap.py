"""A Singer tap as a process: started with its files, read line by line, ended.

What it is told is in files that its own user alone may read, gone with the process; those of a process that was killed
go when the next tap starts. It is a process group of its own,
so that what it has started ends with it. Where this process is killed, the tap ends when it next writes.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from semel.errors import ConfigError

__all__ = ["Tap"]

_CHUNK = 1 << 20
#: Of what it has said on its error output, how much a message repeats.
_LAST_WORDS = 2_000
_END_S = 5.0
_FOLDERS = "semel-tap-"


class Tap:
    """A tap that runs. Raises :class:`ConfigError` where it cannot be started."""

    def __init__(self, program: str, config: str, catalog: str, state: str | None) -> None:
        _remove_left()
        self._folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDERS}{os.getpid()}-"))  # for this user alone
        self._errors = self._folder / "stderr"
        command = [program]
        for option, text in (("config", config), ("catalog", catalog), ("state", state)):
            if text and text != "null":
                file = self._folder / f"{option}.json"
                file.write_text(text)
                command += [f"--{option}", str(file)]
        try:
            with self._errors.open("wb") as errors:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    bufsize=0,
                    start_new_session=True,
                )
        except OSError as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise ConfigError(
                f"tap {program} cannot be started: {error.strerror}. Nothing was read. Install it on the executors,"
                " where the worker's file says.",
                tag="TAP_MISSING",
            ) from error
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()
        self._lines: list[bytes] = []
        self._next = 0
        self._rest = b""
        #: Whether it has written all that it will.
        self.ended = False

    def line(self, seconds: float) -> bytes | None:
        """Return the next line that is not empty, or None if none comes within the time."""
        while True:
            while self._next < len(self._lines):
                self._next += 1
                if self._lines[self._next - 1].strip():
                    return self._lines[self._next - 1]
            if self.ended or not select.select([self._output], [], [], max(seconds, 0))[0]:
                return None
            found = os.read(self._output, _CHUNK)
            self.ended = not found
            *self._lines, self._rest = (self._rest + found).split(b"\n")
            if self.ended and not self._killed():  # a last line without its end
                self._lines.append(self._rest)
            self._next = 0

    def _killed(self) -> bool:
        """Return whether the tap was killed."""
        try:
            return self._process.wait(_END_S) < 0
        except subprocess.TimeoutExpired:
            return False

    def close(self) -> tuple[int, str]:
        """End it, and what it has started. Returns its status, and its last words."""
        if not self.ended:
            self._signal(signal.SIGTERM)
        try:
            status = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            status = self._process.wait()
        self._signal(signal.SIGKILL)
        if self._process.stdout is not None:
            self._process.stdout.close()
        said = self._errors.read_bytes()[-_LAST_WORDS:].decode(errors="replace").strip()
        shutil.rmtree(self._folder, ignore_errors=True)
        return status, said

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _remove_left() -> None:
    """Remove what processes have left that were killed: their passwords are in it."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDERS}*-*"):
        pid = folder.name.removeprefix(_FOLDERS).partition("-")[0]
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)
        except (OSError, ValueError, OverflowError):
            continue
