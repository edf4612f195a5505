"""``python -m tests.storm --minutes 30 --seed 7``: strike queries, brokers and the wire at random, and see whether all
is exact in the end.

Prints the seed, what was struck, what became of the queries, and what is wrong; ends with status 1 if anything is. The
seed decides what is struck, in which order, after which pauses and for how long; which batch and which request it meets
is up to the machine.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from tests.storm import report
from tests.storm.job import KINDS
from tests.storm.storm import Plan, Storm


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=5, help="of storm; starting and reading to the end come on top"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--queries", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--rows", type=int, default=100, help="that arrive in a second")
    parser.add_argument(
        "--kept",
        type=Path,
        help="a new directory for logs, steps, checkpoints and the brokers' data, kept whatever happens",
    )
    given = parser.parse_args()
    directory = given.kept or Path(tempfile.mkdtemp(prefix=f"semel-storm-{given.seed}-"))
    directory.mkdir(parents=True, exist_ok=True)
    console = Console(width=max(160, Console().width))
    plan = Plan(given.seed, given.minutes * 60, given.queries, given.rows)
    with Storm(plan, directory.absolute(), console.print) as storm:
        outcome = storm.run()
        console.print(report.strikes(storm), report.queries(storm))
    for problem in outcome.problems:
        console.print(problem, markup=False, highlight=False)
    if outcome.problems:
        console.print(
            f"seed {plan.seed}: {len(outcome.problems)} problems. Logs, steps, checkpoints and the brokers' data are"
            f" kept in {directory}"
        )
        return 1
    console.print(
        f"seed {plan.seed}: every row of the source exactly once in each output, no transaction open, every position"
        " at the end"
    )
    if given.kept is None:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
