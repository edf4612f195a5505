"""``python -m tests.storm --system mirror --minutes 30 --seed 7``: strike programs, brokers and the wire at random, and
see whether all is exact in the end.

Prints the seed, what was struck, what became of the programs, and what is wrong; ends with status 1 if anything is. The
seed decides what is struck, in which order, after which pauses and for how long; which batch and which request it meets
is up to the machine. ``--system all`` makes one storm of each after the other.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tests.storm import report
from tests.storm.connect_storm import ConnectStorm
from tests.storm.mirror_storm import MirrorStorm
from tests.storm.outbox_storm import OutboxStorm
from tests.storm.query_storm import QueryStorm
from tests.storm.storm import Plan, Storm
from tests.storm.streams_storm import StreamsStorm

SYSTEMS: dict[str, type[Storm]] = {
    storm.system: storm for storm in (QueryStorm, MirrorStorm, StreamsStorm, ConnectStorm, OutboxStorm)
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    parser.add_argument("--system", choices=[*SYSTEMS, "all"], default=QueryStorm.system)
    parser.add_argument(
        "--minutes", type=float, default=5, help="of storm; starting and reading to the end come on top"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--nodes", type=int, default=3, help="brokers of each cluster")
    parser.add_argument("--rows", type=int, default=100, help="that arrive in a second")
    parser.add_argument(
        "--control", action="store_true", help="run without the guarantee: it must find something wrong"
    )
    parser.add_argument(
        "--kept",
        type=Path,
        help="a new directory for logs, steps, checkpoints and the brokers' data, kept whatever happens",
    )
    given = parser.parse_args(argv)
    console = Console(width=max(160, Console().width))
    plan = Plan(given.seed, given.minutes * 60, given.rows, given.nodes, given.control)
    systems = list(SYSTEMS) if given.system == "all" else [given.system]
    lines = [_storm(system, plan, given.kept, console) for system in systems]
    for line, _ in lines:
        console.print(line, markup=False, highlight=False)
    return 1 if any(wrong for _, wrong in lines) else 0


def _storm(system: str, plan: Plan, kept: Path | None, console: Console) -> tuple[str, bool]:
    """The line of result, and whether anything is wrong."""
    directory = kept / system if kept else Path(tempfile.mkdtemp(prefix=f"semel-storm-{system}-{plan.seed}-"))
    directory.mkdir(parents=True, exist_ok=True)
    with SYSTEMS[system](plan, directory.absolute(), console.print) as storm:
        outcome = storm.run()
        console.print(report.strikes(storm), report.programs(storm))
    for problem in outcome.problems:
        console.print(problem, markup=False, highlight=False)
    line = report.line(storm)
    if outcome.problems:
        return f"{line}. Logs, steps, checkpoints and the brokers' data are kept in {directory}", True
    if kept is None:
        shutil.rmtree(directory)
    return line, False


if __name__ == "__main__":
    sys.exit(main())
