"""Deadlines end, and pauses grow up to a bound and never reach beyond the end."""

import time

import pytest

from semel.wire.deadline import Deadline


def test_remaining_falls_to_zero_and_not_below(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "sleep", sleep)
    deadline = Deadline(20)
    assert deadline.timeout_ms == 20
    assert 0 < deadline.remaining <= 0.0201
    assert not deadline.passed
    while not deadline.passed:
        deadline.pause()
    assert deadline.remaining == 0.0


@pytest.mark.parametrize("timeout", [0, -5])
def test_no_time_is_passed_at_once(timeout: float) -> None:
    deadline = Deadline(timeout)
    assert deadline.passed
    deadline.pause()
    assert deadline.remaining == 0.0


def slept(monkeypatch: pytest.MonkeyPatch, deadline: Deadline, times: int) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    for _ in range(times):
        deadline.pause()
    return pauses


def test_pauses_double_up_to_the_longest_with_a_jitter_of_a_fifth(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = slept(monkeypatch, Deadline(1e9, backoff_ms=100, backoff_max_ms=1_000), 8)
    for pause, due in zip(pauses, [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0], strict=True):
        assert 0.8 * due <= pause <= 1.2 * due
    assert len({pause / due for pause, due in zip(pauses, [0.1, 0.2, 0.4, 0.8, 1, 1, 1, 1], strict=True)}) > 1


def test_the_first_pause_keeps_to_the_longest_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(slept(monkeypatch, Deadline(1e9, backoff_ms=500, backoff_max_ms=50), 5)) <= 1.2 * 0.05


def test_a_pause_does_not_reach_beyond_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(slept(monkeypatch, Deadline(30, backoff_ms=10_000, backoff_max_ms=10_000), 3)) <= 0.03


@pytest.mark.parametrize("timeout", [0, 50])
def test_attempts_are_one_at_least_and_end_with_the_time(timeout: float) -> None:
    deadline = Deadline(timeout, backoff_ms=10, backoff_max_ms=10)
    attempts = sum(1 for _ in deadline.attempts())
    assert deadline.passed
    assert attempts == 1 if timeout == 0 else 3 <= attempts <= 8


def test_a_long_wait_is_told_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    clock = [1_000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    deadline = Deadline(60_000)
    for moment in (1_005.0, 1_011.0, 1_030.0):
        clock[0] = moment
        deadline.warn("Produce: no leader")
    assert [record.getMessage() for record in caplog.records] == [
        "still waiting, for at most 49 s more: Produce: no leader"
    ]
