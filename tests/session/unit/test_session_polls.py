"""What is said of a session that polls too late."""

from __future__ import annotations

import re

import pytest

from semel.transaction.session_polls import PollWatch


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return found


def test_late_rows_are_said_once_and_no_poll_without_rows_is_late(caplog: pytest.LogCaptureFixture) -> None:
    watch = PollWatch("id", 0)  # any time is too long
    watch.polled(committed=False)
    assert not said(caplog)
    watch.handed_out(5)
    watch.check()
    (text,) = said(caplog)
    assert re.match(r"session 'id': 5 rows took \d+ ms \(\d+\.\d ms a row\), and max.poll.interval.ms is 0: the", text)
    assert "Nothing of these rows is visible, and they are handed out again." in text
    watch.polled(committed=False)
    assert not said(caplog)
    watch.handed_out(5)
    watch.polled(committed=True)
    assert "These rows are committed" in said(caplog)[0]
    watch.polled(committed=True)
    assert not said(caplog)


def test_polls_in_time_are_not_said_of(caplog: pytest.LogCaptureFixture) -> None:
    watch = PollWatch("id", 600_000)
    watch.handed_out(5)
    watch.check()
    watch.polled(committed=False)
    assert not said(caplog)
