"""Pauses that double up to a limit."""

from __future__ import annotations

from semel.wire.backoff import Backoff


def test_pauses_double_up_to_the_longest_and_are_short_again_after_a_success() -> None:
    backoff = Backoff(1, 5)
    assert [backoff.next() for _ in range(5)] == [1, 2, 4, 5, 5]
    backoff.reset()
    assert backoff.next() == 1
    assert Backoff(9, 5).next() == 5


def test_clients_do_not_try_again_at_the_same_time() -> None:
    backoff = Backoff(1, 1, jitter=0.2)
    pauses = [backoff.next() for _ in range(50)]
    assert len(set(pauses)) > 10
    assert all(0.8 <= pause <= 1.2 for pause in pauses)
