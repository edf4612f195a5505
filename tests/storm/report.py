"""What a storm has to say at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rich import box
from rich.table import Table

from semel.steps import OwnerStep, Step, TwoPhaseStep
from semel.testing.step_log import step_name
from tests.storm.faults import MISSED
from tests.storm.storm import Storm
from tests.storm.supervisor import Keeper

__all__ = ["line", "programs", "strikes"]


def strikes(storm: Storm) -> Table:
    """What was struck, how often, and how."""
    table = Table(title=f"seed {storm.plan.seed}: strikes", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("struck")
    table.add_column("times", justify="right")
    table.add_column("how")
    for kind, happened in _struck(storm).items():
        table.add_row(kind, str(happened.total()), _listed(happened))
    table.add_row("of the wire", "", _listed(storm.by_api))
    return table


def line(storm: Storm) -> str:
    """What was struck, and the verdict, on one line."""
    struck = ", ".join(f"{kind} {happened.total()}" for kind, happened in _struck(storm).items())
    wrong = len(storm.outcome.problems)
    return (
        f"{storm.system}, seed {storm.plan.seed}: {storm.outcome.seconds.get('rage', 0):.0f} s,"
        f" {storm.outcome.rows:,} records, struck: {struck}; {f'{wrong} PROBLEMS' if wrong else storm.promise}"
    )


def programs(storm: Storm) -> Table:
    """What became of each program."""
    phases = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in storm.outcome.seconds.items())
    table = Table(title=f"{storm.outcome.rows:,} records; {phases}", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("program", "starts", "transactions taken over", "committed", "aborted", "markers healed"):
        table.add_column(column, justify="left" if column == "program" else "right")
    table.add_column("ended by")
    for keeper in storm.keepers:
        table.add_row(keeper.name, str(keeper.starts), *map(str, _passed(keeper)), _listed(keeper.ends))
    return table


def _struck(storm: Storm) -> dict[str, Counter[str]]:
    counts = {
        kind: Counter({action: n for action, n in counts.items() if action != MISSED})
        for kind, counts in storm.struck.counts.items()
    }
    return {**counts, "wire": storm.happened} if "wire" in counts else counts


def _passed(keeper: Keeper) -> list[int]:
    steps = Counter(passed.step for passed in keeper.plan.passed())
    asked: list[tuple[Step, ...]] = [
        (OwnerStep.MARKERS_CHECKED,),
        (OwnerStep.COMMIT_ANSWERED, TwoPhaseStep.COMMIT_ANSWERED),
        (OwnerStep.ABORT_ANSWERED, TwoPhaseStep.ABORT_ANSWERED),
        (OwnerStep.HEALED,),
    ]
    return [sum(steps[step_name(one)] for one in some) for some in asked]


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(counts.items(), key=lambda pair: -pair[1]))
