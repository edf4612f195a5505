"""``make streams-demo``: every count is right, and the naive program's are not."""

from __future__ import annotations

import pytest
from rich.console import Console

from examples.demos.streams import show


@pytest.mark.exhaustive
def test_streams_are_exact_and_the_naive_program_counts_twice() -> None:
    ours, naive = show(Console(quiet=True), 40_000)
    assert ours.exact, ours
    assert ours.kills >= 3, ours  # a worker that is removed may not come to its own
    assert naive.high, naive
    assert not naive.low, naive
    assert naive.kills >= 3, naive
