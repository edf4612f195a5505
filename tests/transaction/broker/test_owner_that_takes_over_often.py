"""An owner that takes over for each batch reads only what is new, and sees all that others have done in between."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from semel.config import ClientConfig
from semel.read.raw_log import read_raw
from semel.sandbox import Sandbox
from semel.transaction.producer import Producer
from semel.transaction.progress.record import Progress
from semel.wire.client import Client

_numbers = count(1)


@pytest.fixture
def client(kafka: Sandbox) -> Iterator[Client]:
    with Client(ClientConfig.parse({"bootstrap.servers": kafka.bootstrap_servers})) as made:
        yield made


@pytest.fixture
def prefix() -> str:
    return f"often-{next(_numbers)}"


def commit(client: Client, prefix: str, batch: int, scope: str = "query") -> None:
    """Another owner commits."""
    with Producer(client, prefix, scope=scope) as owner, owner.transaction() as txn:
        txn.commit(Progress(query="q", batch=batch))


def test_it_sees_what_others_have_committed(client: Client, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[int | None] = []

    def watched(*given: Any, start: int | None = None) -> Any:
        starts.append(start)
        return read_raw(*given, start=start)

    monkeypatch.setattr("semel.transaction.progress.topic.read_raw", watched)
    often = Producer(client, prefix, scope="query", decides_only=True)
    assert often.take_over() is None
    often.hand_over()
    for batch in range(3):
        commit(client, prefix, batch)
        found = often.take_over()
        assert found is not None
        assert found.batch == batch
        often.hand_over()
    commit(client, prefix, 7, scope="batch")
    found = often.take_over()
    assert found is not None
    assert found.batch == 2, "another scope's record is not its own"
    resumed = [start for start in starts if start is not None]
    assert len(resumed) >= 4
    assert resumed == sorted(resumed)


def test_it_settles_what_another_has_left_open(client: Client, prefix: str) -> None:
    often = Producer(client, prefix, scope="query", decides_only=True)
    often.take_over()
    often.hand_over()
    commit(client, prefix, 0)
    left = Producer(client, prefix, scope="query")
    txn = left.transaction()
    txn._write_positions(Progress(query="q", batch=1), {})
    found = often.take_over()
    assert found is not None
    assert found.batch == 0
    often.hand_over()
    commit(client, prefix, 1)
    found = often.take_over()
    assert found is not None
    assert found.batch == 1


def test_a_received_identity_commits_once(client: Client, prefix: str) -> None:
    """The process that handed it over takes over again, and fences the one that had it."""
    plans, commits = (Producer(client, prefix, scope="query", decides_only=plan) for plan in (True, False))
    plans.take_over()
    commits.receive(plans.hand_over())
    with commits, commits.transaction() as txn:
        txn.commit(Progress(query="q", batch=0))
    found = plans.take_over()
    assert found is not None
    assert found.batch == 0
