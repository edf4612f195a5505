"""What a client knows of topics and brokers, and when it asks again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.wire.api import topics
from semel.wire.client import Client
from semel.wire.metadata_cache import JUST_NOW_MS
from tests.support.topics import create

LONG_MS = 300_000


@pytest.fixture
def client(kafka: Sandbox) -> Iterator[Client]:
    with Client(ClientConfig.parse({"bootstrap.servers": kafka.bootstrap_servers})) as client:
        yield client


@contextmanager
def refreshes(client: Client) -> Iterator[list[object]]:
    """The names that are asked for."""
    asked: list[object] = []
    refresh = client.refresh

    def counting(names: Any, *args: Any, **named: Any) -> Any:
        asked.append(names)
        return refresh(names, *args, **named)

    with patch.object(client, "refresh", counting):
        yield asked


def test_the_brokers_are_asked_for_once_a_second_and_after_an_error(client: Client) -> None:
    (node,) = client.brokers()
    with refreshes(client) as asked:
        assert list(client.brokers()) == [node]
        assert asked == []
        client.forget(node)
        assert list(client.brokers()) == [node], "and not the list that lacks it"
        assert asked == [()]


def test_each_topic_has_an_age_of_its_own(kafka: Sandbox, client: Client) -> None:
    old, new = (create(kafka.bootstrap_servers, f"aged-{name}", 1) for name in ("old", "new"))
    client.topics({old})
    with Client(client.config) as other:
        topics.grow(other, old, 3)
    client.topics({new}, max_age_ms=0)
    with refreshes(client) as asked:
        assert len(client.topics({old}, max_age_ms=LONG_MS)[old].partitions) == 1
        assert asked == []
        assert len(client.topics({old}, max_age_ms=client.known_topics({old})[old].age_ms)[old].partitions) == 3
        assert asked == [{old}], "although another topic was asked for since"


def test_what_exists_may_be_from_just_now(kafka: Sandbox, client: Client) -> None:
    name = create(kafka.bootstrap_servers, "just-now", 1)
    client.existing({name})
    with refreshes(client) as asked:
        assert client.existing({name}, max_age_ms=LONG_MS).keys() == {name}
        assert asked == []
        assert client.existing({name, "not-there"}, max_age_ms=LONG_MS).keys() == {name}
        assert client.existing({name}).keys() == {name}
        assert len(asked) == 2
    assert JUST_NOW_MS < LONG_MS
