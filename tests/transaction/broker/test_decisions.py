"""How a transaction was ended, written down by several: the first one counts, for everybody and for good
(docs/formats.md).
"""

from __future__ import annotations

from typing import Any

import pytest

from semel.read.raw_log import LogRecord, read_raw
from semel.transaction.progress.log import ProgressLog
from semel.transaction.progress.record import RecordedOutcome, key_head
from semel.transaction.progress.topic import DEFAULT_TOPIC, ProgressTopic
from semel.wire.api.produce import Appender, _Wave
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from tests.read.broker.test_read import clean_often
from tests.support import topics
from tests.support.waiting import wait_for


def test_of_two_decisions_the_first_in_the_log_counts_whoever_reads_first(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, deadline, read, second = (
        a_progress_topic(client, "both-written"),
        client.deadline(30_000),
        ProgressTopic.read,
        list[bool](),
    )

    def overtaken(topic: ProgressTopic, end: int, deadline: Deadline) -> ProgressLog:
        monkeypatch.setattr(ProgressTopic, "read", read)
        second.append(topic.record_outcome(RecordedOutcome(7, 4, committed=False), deadline))
        return read(topic, end, deadline)

    monkeypatch.setattr(ProgressTopic, "read", overtaken)
    assert topic.record_outcome(RecordedOutcome(7, 4, committed=True), deadline)
    assert second == [True]
    keys = [event.key for event in journal(client, topic)]
    assert len(keys) == len(set(keys)) == 2, "compaction would keep the last one of a key, which does not count"


def test_a_decision_whose_answer_is_lost_is_in_the_log_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction would drop the first of two alike, and another's between them would count from then on."""
    topic, sort = a_progress_topic(client, "sent-twice"), Appender._sort

    def lost(appender: Appender, wave: _Wave, answer: object) -> None:
        monkeypatch.setattr(Appender, "_sort", sort)
        appender._fail(wave)

    monkeypatch.setattr(Appender, "_sort", lost)
    assert topic.record_outcome(RecordedOutcome(7, 4, committed=True), client.deadline(30_000))
    assert len(journal(client, topic)) == 1


def test_the_first_decision_counts_behind_compaction_too(servers: str, client: Client) -> None:
    often: dict[str, Any] = {
        "cleanup_policy": "compact",
        "segment_ms": "100",
        "min_cleanable_dirty_ratio": "0.0001",
        "delete_retention_ms": "0",
    }
    topics.create(servers, "often-compacted", 16, **often)
    clean_often(servers)
    topic, deadline = a_progress_topic(client, "compacted", "often-compacted"), client.deadline(30_000)
    assert [
        topic.record_outcome(RecordedOutcome(7, 4, committed=committed), deadline) for committed in (True, False)
    ] == [True, True]
    behind = topic.claim()

    def compacted() -> bool:
        end = topic.claim() + 1  # which rolls the segment
        return all(event.offset != behind for event in read_raw(client, topic.partition, end, deadline))

    wait_for(compacted, "compaction to drop what lies behind them")
    assert topic.read(topic.write_read_barrier(), deadline).decided_of(7, 4) is True
    assert len(journal(client, topic)) == 2


def a_progress_topic(client: Client, prefix: str, name: str = DEFAULT_TOPIC) -> ProgressTopic:
    topic = ProgressTopic(client, prefix, "query", name)
    topic.ensure(client.deadline())
    return topic


def journal(client: Client, topic: ProgressTopic) -> list[LogRecord]:
    """What is written down there of the topic's own prefix."""
    deadline = client.deadline(30_000)
    events = read_raw(client, topic.partition, topic.write_read_barrier(), deadline)
    head = key_head(topic.key) + b'"scope":"decided"'
    return [
        event
        for event in events
        if isinstance(event, LogRecord) and event.key is not None and event.key.startswith(head)
    ]
