"""Files as people write them: each loads, or is refused with what to change.

They were written for these tests, one of each kind that is found in public, in the words of MirrorMaker 2's reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.errors import SemelError
from semel.mirror.config.flow_config import FlowConfig, MirrorConfig
from semel.mirror.config.properties import read_properties

FILES = Path(__file__).parent / "files"
#: The words of each refusal: what is wrong, and what to change.
REFUSED = {
    "no_alias": ("replication.policy.separator=''", "IdentityReplicationPolicy"),
    "connector": ("configuration of a connector", "clusters = A, B"),
    "java_classes": ("A->B.transforms=route would change records", "Take it out"),
}
LOADED = sorted({path.stem for path in FILES.iterdir()} - REFUSED.keys())


def load(name: str) -> MirrorConfig:
    return read_properties(FILES / f"{name}.properties")


def flows(name: str) -> Iterator[FlowConfig]:
    yield from load(name).flows


@pytest.fixture(autouse=True)
def _secrets(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the file with providers names."""
    monkeypatch.setenv("MIRROR_FILES_SERVERS", "a.example:9092")
    (tmp_path / "secrets.properties").write_text("user = mirror")
    (tmp_path / "password").write_text("from a folder")
    written = (FILES / "providers.properties").read_text()
    (tmp_path / "providers.properties").write_text(written.replace("FOLDER", str(tmp_path)))


@pytest.mark.parametrize("name", [name for name in LOADED if name != "providers"])
def test_it_loads(name: str) -> None:
    config = load(name)
    assert config.flows
    assert "secret" not in repr(config).lower()


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_what_to_change(name: str) -> None:
    with pytest.raises(SemelError) as refused:
        load(name)
    assert all(words in refused.value.message for words in REFUSED[name])
    assert "Nothing was " in refused.value.message


def test_one_way() -> None:
    (one,) = flows("active_passive")
    assert [topic for topic in ("shop.orders", "audit", "shop.x-internal", "shops") if one.asks_for(topic)] == [
        "shop.orders",
        "audit",
    ]
    assert [group for group in ("billing", "shipping-1", "other") if one.groups.matches(group)] == [
        "billing",
        "shipping-1",
    ]
    assert (one.acls_s, one.sync_groups_s, one.checkpoints_s, one.refresh_s) == (120, 15, 15, 30)
    assert one.asks_for("heartbeats")
    beats = load("active_passive").heartbeats
    assert [(each.title, each.interval_s, each.replication) for each in beats] == [
        ("main->standby", 3, 3),
        ("standby->main", 3, 3),
    ], "also of the pair without a flow: a flow copies what the other direction's pair writes"
    assert beats[1].client["bootstrap.servers"].startswith("main-1")


def test_both_ways() -> None:
    config = load("active_active")
    assert [one.title for one in config.flows] == ["lisbon->oslo", "oslo->lisbon"]
    assert [one.title for one in config.heartbeats] == ["lisbon->oslo"]


def test_edges_and_a_hub() -> None:
    config = load("hub")
    assert [one.title for one in config.flows] == ["edge.1->hub", "edge.2->hub", "edge.3->hub"]
    assert [one.replication_factor for one in config.flows] == [-1, -1, 1]
    assert [one.asks_for("debug-1") for one in config.flows] == [True, False, False]
    assert config.heartbeats == ()
    assert all(one.acls_s == 0 and not one.copies_heartbeats for one in config.flows)


def test_names_that_stay() -> None:
    (one,) = flows("identity")
    assert one.policy.format_remote_topic("orders") == "orders"
    assert one.policy.format_remote_topic("heartbeats") == "source.heartbeats"
    assert one.policy.refused("target.heartbeats") == "it has come from target"
    assert one.policy.checkpoints_topic == "source.checkpoints.internal"
    assert one.title == "source->target"


def test_clients_in_every_spelling() -> None:
    config = load("overrides")
    (one,) = config.flows
    assert one.source == {
        "bootstrap.servers": "a.example:9092",
        "fetch.max.bytes": "20000000",
        "max.poll.records": "2000",
        "request.timeout.ms": "41000",
        "fetch.max.wait.ms": "60",
        "fetch.min.bytes": "7",
        "max.partition.fetch.bytes": "1500000",
        "retry.backoff.max.ms": "900",
        "client.id": "reads",
    }
    assert one.target == {
        "bootstrap.servers": "b.example:9092",
        "max.request.size": "2000000",
        "acks": "all",
        "retry.backoff.ms": "250",
        "client.id": "writes",
        "delivery.timeout.ms": "240000",
        "linger.ms": "50",
        "retry.backoff.max.ms": "1100",
        "default.api.timeout.ms": "50000",
    }
    assert {"request.timeout.ms", "retries", "B.producer.partitioner.class"} <= set(config.accepted)
    assert not {"A.producer.buffer.memory"} & set(config.accepted), "heartbeats into A are written with it"


def test_secrets_from_elsewhere(tmp_path: Path) -> None:
    (one,) = read_properties(tmp_path / "providers.properties").flows
    assert one.source["bootstrap.servers"] == "a.example:9092"
    assert 'username="mirror" password="from a folder"' in one.target["sasl.jaas.config"]


def test_other_names() -> None:
    (one,) = flows("separators")
    assert one.title == "lab->b", "the connector's alias is the cluster's name in this flow, as in MirrorMaker 2"
    assert one.policy.format_remote_topic("orders") == "lab__orders"
    assert one.policy.checkpoints_topic == "lab.checkpoints.internal"
    assert not one.asks_for("privates")
    assert (one.configs_s, one.checkpoints_s, one.refresh_s) == (0, 0, 0)


def test_the_guarantee() -> None:
    assert [(one.exactly_once, one.read_committed) for one in flows("exactly_once")] == [(True, True)]
    assert [(one.exactly_once, one.read_committed, one.start) for one in flows("at_least_once")] == [
        (False, False, "latest")
    ]
