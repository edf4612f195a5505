"""The figures of a running mirror, on a terminal alone: one line for each flow, below the log.

They are those of the metrics, so that nothing is asked for them. Spark's Java and its workers write to the same
terminal. While the figures are shown, all that this program and they write as errors passes through a pipe, and is
printed above the figures line by line.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from semel.mirror.meter import Doing, FlowMeter, meters

__all__ = ["Figures", "live"]

#: Records per second are those of so many seconds.
_WINDOW_S = 10.0
_STDERR = 2
#: So long at the end what is on its way is waited for.
_LAST_LINES_S = 2.0


@contextmanager
def live() -> Iterator[None]:
    """Show the figures until the block is left, if errors go to a terminal. The last ones stay there."""
    if not sys.stderr.isatty() or Console(stderr=True).is_dumb_terminal:
        yield
        return
    terminal = os.fdopen(os.dup(_STDERR), "w", errors="replace")
    console, figures = Console(file=terminal), Figures()
    shown = Live(
        console=console,
        get_renderable=figures.table,
        refresh_per_second=2,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    shown.start()
    try:
        with _lines_by(console, terminal.fileno()):
            yield
    finally:
        with suppress(OSError):  # the terminal is gone
            shown.stop()


@contextmanager
def _lines_by(console: Console, terminal: int) -> Iterator[None]:
    """Have the console print each line that anybody writes as an error, until the block is left."""
    source, sink = os.pipe()
    ended = threading.Event()
    printer = threading.Thread(target=_print_lines, args=[source, console, ended], daemon=True)
    printer.start()
    sys.stderr.flush()
    os.dup2(sink, _STDERR)
    os.close(sink)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, _STDERR)
        ended.set()
        printer.join(_LAST_LINES_S)


def _print_lines(source: int, console: Console, ended: threading.Event) -> None:
    """Print what comes out of the pipe, until it is empty after the end. It stays open: Java ends later than that.

    It is read to its end whatever becomes of the terminal: nobody who writes an error may have to wait.
    """
    text, ends, there = b"", False, True
    while not ends:
        if not select.select([source], [], [], 0.1)[0]:
            ends = ended.is_set()
            continue
        read = os.read(source, 65_536)
        ends = not read
        *lines, text = (text + read).split(b"\n")
        for line in lines:
            there = there and _printed(console, line)
    if text and there:
        _printed(console, text)


def _printed(console: Console, line: bytes) -> bool:
    """Print a line. False if the terminal is gone."""
    try:
        console.print(Text(line.decode(errors="replace")), soft_wrap=True)
    except Exception:  # of whatever kind: the mirror goes on
        return False
    return True


class Figures:
    """The table of all flows. It is made again each time that it is shown."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, int]]] = {}

    def table(self) -> Table:
        """Return the figures of this moment."""
        table = Table(box=None, header_style="bold", padding=(0, 2))
        table.add_column("flow")
        for name in ("records", "records/s", "lag", "last commit"):
            table.add_column(name, justify="right")
        table.add_column("")
        now = time.monotonic()
        for meter in meters():
            records, lag = sum(count for count, _ in meter.copied.values()), meter.lag
            table.add_row(
                meter.title,
                f"{records:,}",
                f"{self._rate(meter.title, now, records):,.0f}",
                f"{sum(lag.values()):,}" if lag else "-",
                "-" if meter.committed_at is None else f"{now - meter.committed_at:.0f} s ago",
                _state(meter),
            )
        return table

    def _rate(self, title: str, now: float, records: int) -> float:
        seen = self._seen.setdefault(title, deque())
        seen.append((now, records))
        while now - seen[0][0] > _WINDOW_S:
            seen.popleft()
        began, before = seen[0]
        return (records - before) / (now - began) if now > began else 0.0


def _state(meter: FlowMeter) -> str:
    if meter.doing in (Doing.ENDED, Doing.STOPPED, Doing.PAUSED, Doing.STANDING_BY):
        return "stopped" if meter.doing is Doing.ENDED else meter.doing.value
    if meter.tries_again:
        return "tries again"
    stopped = len(meter.stopped)
    if stopped:
        return f"{stopped} stopped: see `semel mirror status`"
    lag = meter.lag
    return "starting" if not lag else "behind" if any(lag.values()) else "up to date"
