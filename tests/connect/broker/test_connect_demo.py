"""``make connect-demo``: what is exactly once is exact under kills, from a source to a topic, and on to its sinks."""

from __future__ import annotations

import pytest
from rich.console import Console

from examples.demos.connect import show


@pytest.mark.exhaustive
def test_exactly_once_is_exact_and_at_least_once_doubles() -> None:
    (exact, control), sinks = show(Console(quiet=True), lines=50_000, rows=5_000)
    assert (exact.lost, exact.doubled, control.lost) == (0, 0, 0)
    assert control.doubled
    assert sinks.as_promised(), sinks.targets
    assert sinks.kills == 5
