"""A terminal on which tests run programs, and what they show there."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import threading
from collections.abc import Sequence

from tests.support.waiting import PATIENCE_S

#: For ``python -c``: the terminal becomes the program's own, so that Ctrl-C comes from there.
OWN_TERMINAL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"


class OnTerminal:
    """A program with a terminal of its own. It ends with SIGKILL at the end of the block, if it has not ended."""

    def __init__(self, command: Sequence[str]) -> None:
        self._raw = b""
        self._fd, terminal = pty.openpty()
        self.process = subprocess.Popen(
            command,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        )
        os.close(terminal)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        try:
            while part := os.read(self._fd, 65_536):
                self._raw += part
        except OSError:  # so Linux says that nobody has the terminal open any more
            return

    def __enter__(self) -> OnTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE_S)
        os.close(self._fd)

    def type(self, keys: bytes) -> None:
        """Press keys: ``\\x03`` is Ctrl-C."""
        os.write(self._fd, keys)

    def wait(self) -> int:
        """Wait until the program has ended and all of its output is there. Return its status."""
        status = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return status

    def raw(self) -> str:
        """Return the output with all of its codes."""
        return self._raw.decode(errors="replace")

    def lines(self) -> list[str]:
        """Return each line as it was last written, without codes. One that was erased is among them."""
        plain = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", self.raw())
        return [line.rstrip("\r ").rpartition("\r")[2] for line in plain.split("\n")]
