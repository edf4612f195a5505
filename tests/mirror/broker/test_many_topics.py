"""A flow of many topics: they are made in one request, and what is asked of them is asked together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.mirror.config.properties import read_properties
from semel.mirror.topics import find, follow, sync_configs
from semel.sandbox import Sandbox
from semel.testing.proxy.fault_proxy import FaultProxy
from semel.wire.api.topics import NewTopic as Wanted
from semel.wire.api.topics import create_all, own_config
from semel.wire.client import Client
from tests.mirror.support.harness import alias_of, mm2, partitions, unique

COUNT = 300


@contextmanager
def removed(sandbox: Sandbox, names: list[str]) -> Iterator[None]:
    """Delete these topics at the end: each test that looks at all topics would look at them."""
    try:
        yield
    finally:
        admin = AdminClient({"bootstrap.servers": sandbox.bootstrap_servers})
        for done in admin.delete_topics(names).values():
            done.exception(60)


def client_of(servers: str) -> Client:
    return Client(ClientConfig.parse({"bootstrap.servers": servers}))


def test_300_topics_are_made_in_one_request(a: Sandbox, b: Sandbox, tmp_path: Path) -> None:
    prefix = unique("many")
    names = [f"{prefix}.{number}" for number in range(COUNT)]
    file = mm2(tmp_path, a, b, f"{prefix}.*")
    (config,) = read_properties(file).flows
    targets = [f"{alias_of(file)}.{name}" for name in names]
    admin = AdminClient({"bootstrap.servers": a.bootstrap_servers})
    with removed(a, names), removed(b, targets):
        settings = {"retention.ms": "7200000"}
        for done in admin.create_topics([NewTopic(name, 2, 1, config=settings) for name in names]).values():
            done.result(60)
        with FaultProxy(a.bootstrap_servers) as here, FaultProxy(b.bootstrap_servers) as there:
            with client_of(here.bootstrap_servers) as source, client_of(there.bootstrap_servers) as target:
                followed = follow(source, target, config, find(source, config), {})
                assert sync_configs(source, target, config, followed.topics.values()) == set()
            read, asked = Counter(one.api for one in here.log), Counter(one.api for one in there.log)
        assert (len(followed.topics), followed.refused) == (COUNT, {})
        assert {len(partitions(b, target)) for target in targets[:3]} == {2}
        assert asked["CreateTopics"] == 1
        # of the source: for the new topics, and for the sync; of the target: the largest batch, and the sync
        assert (read["DescribeConfigs"], asked["DescribeConfigs"]) == (2, 2)
        with client_of(b.bootstrap_servers) as target:
            assert own_config(target, targets[-1]) == settings


def test_one_that_is_refused_leaves_the_others(b: Sandbox) -> None:
    good, there = unique("made"), unique("there")
    with client_of(b.bootstrap_servers) as client, removed(b, [good, there]):
        assert create_all(client, [Wanted(there, 1)]) == {there: True}
        made = create_all(client, [Wanted(good, 1), Wanted("no name", 1), Wanted(there, 3)])
    refused = made.pop("no name")
    assert made == {good: True, there: False}
    assert isinstance(refused, ConfigError)
    assert refused.tag == "INVALID_TOPIC_EXCEPTION"
