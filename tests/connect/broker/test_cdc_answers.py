"""Debezium's own answers (``make oracle-debezium``), and semel's to the same changes of a database."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from semel.testing.postgres import Postgres
from tests.connect.oracle.changes import LAYOUT, ROWS, SCRIPT, VARIANTS, expected
from tests.connect.oracle.debezium import LAST, answer, connector, kept_answers, run_script, streams
from tests.connect.support.capturing import Capturing
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def ours() -> Iterator[dict[str, Any]]:
    """What semel gives, by variant and topic."""
    with Postgres(wal_level="logical", max_replication_slots="20", max_wal_senders="20") as postgres:
        run_script(postgres, [LAYOUT, ROWS])
        made = {variant: Capturing(connector(variant, postgres)) for variant in VARIANTS}
        for one in made.values():
            wait_for(partial(_streams, one), "that it follows the log")
        assert streams(postgres) == len(VARIANTS)
        run_script(postgres, [*SCRIPT, LAST])
        for one in made.values():
            wait_for(partial(_ended, one), "the last change")
            one.task.stop()
        yield {variant: _answers(one) for variant, one in made.items()}


def _streams(capturing: Capturing) -> bool:
    capturing.poll()
    return getattr(capturing.task, "_stream", None) is not None


def _ended(capturing: Capturing) -> bool:
    capturing.poll()
    pairs = next((rows for topic, rows in capturing.written.items() if topic.endswith(".pairs")), [])
    return any(b'"end"' in (key or b"") for key, _, _ in pairs)


def _answers(capturing: Capturing) -> dict[str, Any]:
    return {
        topic.partition(".")[2]: [
            answer(key, value, [(one["key"], one["value"]) for one in headers]) for key, value, headers in rows
        ]
        for topic, rows in capturing.written.items()
    }


@pytest.mark.parametrize("variant", VARIANTS)
def test_records_are_those_of_debezium(ours: dict[str, Any], variant: str) -> None:
    theirs = kept_answers()[variant]
    assert sorted(ours[variant]) == sorted(theirs)
    for topic, rows in theirs.items():
        assert ours[variant][topic] == expected(variant, topic, rows), topic
