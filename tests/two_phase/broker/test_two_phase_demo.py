"""``make twophase-demo``: the outbox is exact, and the naive dual write is not."""

from __future__ import annotations

import pytest
from rich.console import Console

from examples.demos.two_phase import show


@pytest.mark.exhaustive
def test_the_outbox_is_exact_and_the_naive_dual_write_tears() -> None:
    outbox, naive = show(Console(quiet=True), 80)
    assert outbox.exact
    assert (outbox.table, outbox.topic) == (80, 80)
    assert (naive.table, naive.only_topic, naive.doubled) == (80, 0, 0)
    assert naive.only_table >= 2
