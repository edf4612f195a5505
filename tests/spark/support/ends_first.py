"""A control: parts are committed before the owner has decided. A crash in between doubles the rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from semel.steps import Step, WriterStep
from semel.testing import crash
from semel.testing.crash import CrashPlan
from semel.transaction.two_phase.completion import commit_all
from semel.transaction.two_phase.prepared import Prepared
from semel.wire.client import Client

__all__ = ["EndsFirst", "observe"]


class EndsFirst(CrashPlan):
    """A crash plan under which every process ends parts first."""

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "SEMEL_STEPS": f"{__name__}:observe"}


def observe(step: Step, detail: str = "") -> None:
    """As :func:`semel.testing.crash.observe`."""
    if step is WriterStep.COMMITTING:
        _change()
    crash.observe(step, detail)


@cache
def _change() -> None:
    from semel.spark.writer import commit
    from semel.spark.writer.options import WriterOptions
    from semel.spark.writer.plan import Decision

    decide = commit._decide

    def end_first(client: Client, options: WriterOptions, decision: Decision, prepared: Sequence[Prepared]) -> None:
        commit_all(client, prepared)
        decide(client, options, decision, ())

    commit._decide = end_first
