"""``make streams-demo``: every count is right, and the naive program's are not."""

from __future__ import annotations

import pytest
from rich.console import Console

from semel.demo.streams import show


@pytest.mark.exhaustive
def test_streams_are_exact_and_the_naive_program_counts_twice() -> None:
    ours, naive = show(Console(quiet=True), 40_000)
    assert ours.exact
    assert ours.right == naive.right + naive.high
    assert (naive.low, naive.kills) == (0, 5)
    assert naive.high
    assert ours.kills >= 4
