"""``python -m tests.fuzz --target records --minutes 10 --seed 1``: feed a parser, or all of them, with spoilt inputs.

Prints seed, inputs, inputs a second, and where each failing input was kept; ends with status 1 if there was one.
``--replay FILE`` reads one again, with nothing caught.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.fuzz.targets import TARGETS
from tests.fuzz.watch import watched


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", choices=["all", *TARGETS], default="all")
    parser.add_argument("--minutes", type=float, default=0.1, help="for each target")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kept", type=Path, default=Path("fuzz-failures"), help="where failing inputs are kept")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="a failing input of --target")
    given = parser.parse_args()
    if given.replay is not None:
        if given.target == "all":
            parser.error("--replay takes a --target")
        TARGETS[given.target].read(given.replay.read_bytes())
        print("accepted")
        return 0
    failed = False
    for name in TARGETS if given.target == "all" else [given.target]:
        (report,) = watched([name], given.seed, given.minutes * 60, given.kept.absolute())
        print(report, flush=True)
        failed |= bool(report.failures)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
