"""What a storm has to say at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rich import box
from rich.table import Table

from semel.steps import OwnerStep
from tests.storm.storm import Storm
from tests.storm.supervisor import Keeper

__all__ = ["queries", "strikes"]


def strikes(storm: Storm) -> Table:
    """What was struck, how often, and how."""
    table = Table(title=f"seed {storm.plan.seed}: strikes", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("struck")
    table.add_column("times", justify="right")
    table.add_column("how")
    for kind, counts in storm.strikers.counts.items():
        happened = (
            storm.wire.happened
            if kind == "wire"
            else Counter({action: n for action, n in counts.items() if action != "found nobody"})
        )
        table.add_row(kind, str(happened.total()), _listed(happened))
    table.add_row("of the wire", "", _listed(storm.wire.by_api))
    return table


def queries(storm: Storm) -> Table:
    """What became of each query."""
    phases = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in storm.outcome.seconds.items())
    table = Table(
        title=f"{storm.outcome.rows:,} rows in the source; {phases}", title_justify="left", box=box.SIMPLE_HEAD
    )
    for column in ("query", "starts", "transactions taken over", "committed", "aborted", "markers healed"):
        table.add_column(column, justify="left" if column == "query" else "right")
    table.add_column("drivers ended by")
    for keeper in storm.keepers:
        table.add_row(keeper.job.kind, str(keeper.starts), *map(str, _passed(keeper)), _listed(keeper.ends))
    return table


def _passed(keeper: Keeper) -> list[int]:
    steps = Counter(passed.step for passed in keeper.plan.passed())
    asked = (OwnerStep.MARKERS_CHECKED, OwnerStep.COMMIT_ANSWERED, OwnerStep.ABORT_ANSWERED, OwnerStep.HEALED)
    return [steps[f"OwnerStep.{step.name}"] for step in asked]


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(counts.items(), key=lambda pair: -pair[1]))
