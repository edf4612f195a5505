"""``make mirror-demo``: exactly once is exact, and at least once doubles."""

from __future__ import annotations

import pytest
from rich.console import Console

from examples.demos.mirror import KILLS, show
from semel.demo.report import as_promised


@pytest.mark.exhaustive
def test_the_mirror_is_exact_and_at_least_once_doubles() -> None:
    outcomes = show(Console(quiet=True))
    assert as_promised(outcomes), [str(one.history) for one in outcomes]
    assert [one.kills for one in outcomes] == [len(KILLS)] * 2
    assert all(one.history.written > 1_000 for one in outcomes)
