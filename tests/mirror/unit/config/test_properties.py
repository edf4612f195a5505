"""The file of MirrorMaker 2: what it means, and mistakes in it, each with its message."""

from __future__ import annotations

from pathlib import Path

import javaproperties
import pytest

from semel.errors import ConfigError, SemelError
from semel.mirror.config.flow_config import FlowConfig, MirrorConfig, OffsetSyncConfig
from semel.mirror.config.properties import read_properties
from semel.settings.providers import resolve

PLAIN = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
A->B.topics = orders, .*-eu
"""
JAVA = "org.apache.kafka.connect.mirror."


def read(directory: Path, more: str = "", *targets: str, start: str = PLAIN) -> MirrorConfig:
    path = directory / "mm2.properties"
    path.write_text(start + more)
    return read_properties(path, targets)


def flow(directory: Path, more: str = "") -> FlowConfig:
    (found,) = read(directory, more).flows
    return found


def test_the_least_file(tmp_path: Path) -> None:
    found = read(tmp_path)
    (one,) = found.flows
    assert one.title == "A->B"
    assert one.policy.format_remote_topic("orders") == "A.orders"
    assert (one.start, one.replication_factor, one.refresh_s, one.exactly_once) == (
        "earliest",
        2,
        600,
        True,
    )
    assert [name for name in ("orders", "x-eu", "orders-us", "x-eu.replica", "__x-eu") if one.topics.matches(name)] == [
        "orders",
        "x-eu",
    ]
    assert (one.source, one.target) == ({"bootstrap.servers": "a:9092"}, {"bootstrap.servers": "b:9092"})
    assert found.accepted == ()
    assert one.offset_syncs == OffsetSyncConfig(on_source=True, most_lag=100, replication=None)
    assert [(each.title, each.interval_s, each.replication) for each in found.heartbeats] == [
        ("A->B", 1, None),
        ("B->A", 1, None),
    ]
    assert (one.acls_s, one.copies_heartbeats, one.read_committed) == (600, True, True)
    assert (one.configs_s, one.checkpoints_s, one.sync_groups_s, one.skips_deleted) == (600, 60, 0, False)
    assert [g for g in ("app", "console-consumer-1", "connect-x") if one.groups.matches(g)] == ["app"]
    assert "a:9092" not in repr(one), "properties hold secrets"


def test_the_nearer_key_wins(tmp_path: Path) -> None:
    more = """
        replication.factor = 3
        A->B.replication.factor = 1
        refresh.topics.enabled = false
        topics.exclude = y.*
        replication.policy.separator = _
        security.protocol = SSL
        A.security.protocol = PLAINTEXT
        consumer.fetch.max.bytes = 1
        source.consumer.fetch.max.wait.ms = 2
        A.consumer.fetch.max.bytes = 3
        A->B.consumer.fetch.min.bytes = 4
        A->B.source.consumer.fetch.min.bytes = 5
        A.admin.retry.backoff.ms = 6
        A.consumer.auto.offset.reset = latest
        A.consumer.group.id = mine
        B.producer.request.timeout.ms = 7000
        B.producer.compression.type = zstd
    """
    one = flow(tmp_path, more)
    assert (one.replication_factor, one.refresh_s, one.start, one.policy.format_remote_topic("t")) == (
        1,
        0,
        "latest",
        "A_t",
    )
    assert one.source == {
        "bootstrap.servers": "a:9092",
        "security.protocol": "PLAINTEXT",
        "retry.backoff.ms": "6",
        "fetch.max.bytes": "3",
        "fetch.max.wait.ms": "2",
        "fetch.min.bytes": "5",
    }
    assert one.target == {"bootstrap.servers": "b:9092", "security.protocol": "SSL", "request.timeout.ms": "7000"}


def test_what_changes_nothing_is_listed_once(tmp_path: Path) -> None:
    more = """
        tasks.max = 10
        A->B.tasks.max = 10
        B.offset.storage.replication.factor = 1
        status.storage.topic = x
        dedicated.mode.enable.internal.rest = true
        listeners = http://localhost:8080
        emit.heartbeats.enabled = false
        heartbeats.replication.enabled = false
        A->B.emit.offset-syncs.enabled = false
        emit.checkpoints.enabled = false
        sync.topic.configs.enabled = false
        sync.topic.acls.enabled = false
        sync.group.offsets.enabled = false
        groups = .*
        key.converter = org.apache.kafka.connect.converters.ByteArrayConverter
        topic.filter.class = org.apache.kafka.connect.mirror.DefaultTopicFilter
        tasks.max.enforce = false
        value.converter.schemas.enable = false
        B.topic.creation.enable = false
        connector.client.config.override.policy = All
    """
    found = read(tmp_path, more)
    assert found.accepted == (
        "A->B.tasks.max",
        "B.offset.storage.replication.factor",
        "B.topic.creation.enable",
        "connector.client.config.override.policy",
        "key.converter",
        "status.storage.topic",
        "tasks.max",
        "tasks.max.enforce",
        "topic.filter.class",
        "value.converter.schemas.enable",
    )
    assert found.flows[0].offset_syncs is None
    assert found.rest is not None
    assert [(one.host, one.port) for one in found.rest.server.listeners] == [("localhost", 8080)]


def test_listeners_alone_open_no_port(tmp_path: Path) -> None:
    """As in MirrorMaker 2, which serves REST in its dedicated mode only if it is asked to."""
    found = read(tmp_path, "listeners = http://localhost:8080\naccess.control.allow.origin = *")
    assert found.rest is None
    assert {"listeners", "access.control.allow.origin"} <= set(found.accepted)
    with pytest.raises(ConfigError, match="listeners=ftp://x is not an address"):
        read(tmp_path, "dedicated.mode.enable.internal.rest = true\nlisteners = ftp://x")


def test_the_defaults_of_mirrormaker_may_be_written_out(tmp_path: Path) -> None:
    silent = read(tmp_path)
    for flow_of in ("", "A->B."):
        more = "".join(
            f"{flow_of}{name} = true\n"
            for name in (
                "emit.heartbeats.enabled",
                "heartbeats.replication.enabled",
                "emit.offset-syncs.enabled",
                "sync.topic.acls.enabled",
                "emit.checkpoints.enabled",
                "sync.topic.configs.enabled",
            )
        )
        assert read(tmp_path, more) == silent
    off = "heartbeats.replication.enabled = false\nA->B.emit.heartbeats.enabled = false"
    assert [each.title for each in read(tmp_path, off).heartbeats] == ["B->A"]


def test_replication_factors(tmp_path: Path) -> None:
    factors = ("replication.factor", "A->B.checkpoints.topic.replication.factor")
    one = flow(tmp_path)
    assert (one.replication_factor, one.checkpoints_replication) == (2, None)
    for number in (-1, 1, 3):
        one = flow(tmp_path, "".join(f"{name} = {number}\n" for name in factors))
        assert (one.replication_factor, one.checkpoints_replication) == (number, number)


def test_the_separator_of_mirrormakers_own_topics(tmp_path: Path) -> None:
    key = "replication.policy.internal.topic.separator.enabled"
    assert flow(tmp_path, "replication.policy.separator = _").policy.checkpoints_topic == "A_checkpoints_internal"
    off = f"replication.policy.separator = _\nA->B.{key} = false"
    assert flow(tmp_path, off).policy.checkpoints_topic == "A.checkpoints.internal"
    assert read(tmp_path, off).accepted == ()


@pytest.mark.parametrize(
    ("line", "exactly_once"),
    [
        ("B.exactly.once.source.support = enabled", True),
        ("B.exactly.once.source.support = disabled", False),
        ("connector.type = sink\ntransaction.producer = true", True),
        ("transaction.producer = false", False),
        ("B.exactly.once.source.support = enabled\ntransaction.producer = true", True),
        ("A.exactly.once.source.support = disabled", True),
    ],
)
def test_the_guarantee(tmp_path: Path, line: str, exactly_once: bool) -> None:
    assert flow(tmp_path, line).exactly_once is exactly_once


def test_an_alias_with_dots(tmp_path: Path) -> None:
    start = PLAIN.replace("A", "eu.west")
    (one,) = read(tmp_path, "eu.west.consumer.fetch.max.bytes = 9", start=start).flows
    assert one.title == "eu.west->B"
    assert one.source == {"bootstrap.servers": "a:9092", "fetch.max.bytes": "9"}


def test_one_of_several_flows_is_chosen(tmp_path: Path) -> None:
    more = "B->A.enabled = true\n"
    assert [one.title for one in read(tmp_path, more).flows] == ["A->B", "B->A"]
    (one,) = read(tmp_path, more, "A").flows
    assert one.title == "B->A"
    assert one.back is None
    (one,) = read(tmp_path, more + f"replication.policy.class = {JAVA}IdentityReplicationPolicy", "A").flows
    assert one.back is not None
    assert one.back.matches("orders")
    with pytest.raises(ConfigError, match=r"UNKNOWN_OPTION. --clusters C"):
        read(tmp_path, more, "C")
    with pytest.raises(ConfigError, match=r"NO_FLOW. no flow is enabled into A"):
        read(tmp_path, "", "A")


MISTAKES = [
    ("clusters = A", "WRONG_VALUE] clusters names fewer than two clusters"),
    ("clusters = A, A", "WRONG_VALUE] clusters: an alias is there twice"),
    ("clusters = A, B, C D", "WRONG_VALUE] clusters: 'C D' is no alias"),
    ("A->B.enabled = yes", "WRONG_VALUE] A->B.enabled=yes is not true or false"),
    (
        "replication.policy.internal.topic.separator.enabled = no",
        "WRONG_VALUE] replication.policy.internal.topic.separator",
    ),
    ("A->B.enabled = false", "NO_FLOW] no flow is enabled, so there is nothing to do"),
    ("A->B.topics = orders, (", "WRONG_VALUE] A->B.topics holds the pattern '('"),
    (r"topics.exclude = \\p{Alpha}", r"WRONG_VALUE] topics.exclude holds the pattern '\\p{Alpha}'"),
    ("C->B.enabled = true", "UNKNOWN_OPTION] C->B.enabled names a cluster that clusters does not: it has A, B"),
    ("C.bootstrap.servers = c:1", "UNKNOWN_OPTION] C.bootstrap.servers names a cluster"),
    ("A.bootstrap.servers =", "MISSING_OPTION] A.bootstrap.servers is missing"),
    ("A.bootstrap.servers = a", "cluster A: bootstrap.servers holds 'a', which is not host:port"),
    ("A->B.topic = orders", "UNKNOWN_OPTION] A->B.topic is not a known key; did you mean topics?"),
    (
        "replication.facter = 3",
        "UNKNOWN_OPTION] replication.facter is not a known key; did you mean replication.factor?",
    ),
    (
        "A.consumer.fetch.max.byte = 3",
        "cluster A: fetch.max.byte is not a known property; did you mean fetch.max.bytes?",
    ),
    ("A->B.security.protocol = SSL", "UNKNOWN_OPTION] A->B.security.protocol is not a known key"),
    ("auto.offset.reset = latest", "did you mean source.consumer.auto.offset.reset?"),
    (
        "source.consumer.auto.offset.reset = none",
        "WRONG_VALUE] source.consumer.auto.offset.reset=none is not one of earliest, latest",
    ),
    ("replication.factor = 0", "WRONG_VALUE] replication.factor=0 is not a whole number from 1 to 2147483647, or -1"),
    (
        "replication.policy.class = com.example.Mine",
        "WRONG_VALUE] replication.policy.class=com.example.Mine is a class of Java's",
    ),
    (
        "replication.policy.separator = /",
        "WRONG_VALUE] replication.policy.separator='/' cannot stand in the name of a topic",
    ),
    ("transforms = route", "WRONG_VALUE] transforms=route would change records by classes of Java's"),
    ("A->B.transforms.route.type = X", "WRONG_VALUE] A->B.transforms.route.type=X would change records"),
    ("value.converter = org.apache.kafka.connect.json.JsonConverter", "WRONG_VALUE] value.converter="),
    (
        "topic.filter.class = com.example.Mine",
        "WRONG_VALUE] topic.filter.class=com.example.Mine is a class of Java's",
    ),
    (
        "config.providers = vault\nconfig.providers.vault.class = com.example.Vault",
        "CONFIG_PROVIDER] config.providers.vault.class=com.example.Vault is not a known provider",
    ),
    (
        "config.providers = env\nconfig.providers.env.class = EnvVarConfigProvider\n"
        "B.ssl.key.password = ${env:NONE_OF_IT}",
        "CONFIG_PROVIDER] B.ssl.key.password: ${env:NONE_OF_IT} is not found, or not allowed",
    ),
    ("use.defaults.from = source", "WRONG_VALUE] use.defaults.from=source would set the source's defaults"),
    ("A->B.on.data.loss = go on", "WRONG_VALUE] A->B.on.data.loss=go on is not one of stop, skip"),
    ("groups = (", "WRONG_VALUE] groups holds the pattern '('"),
    ("config.properties.exclude = (", "WRONG_VALUE] config.properties.exclude holds the pattern '('"),
    (
        "sync.group.offsets.interval.seconds = -1\nsync.group.offsets.enabled = true",
        "WRONG_VALUE] sync.group.offsets.inter",
    ),
    ("A->B.sync.topic.acls.enabled = maybe", "WRONG_VALUE] A->B.sync.topic.acls.enabled=maybe is not true or false"),
    (
        "checkpoints.topic.replication.factor = -2",
        "WRONG_VALUE] checkpoints.topic.replication.factor=-2 is not a whole number",
    ),
    (
        "A->B.producer.override.fetch.max.byte = 3",
        "In the file: A->B.producer.override.fetch.max.byte.",
    ),
    ("A->B.producer.override.acks = 1", "cluster B: acks=1 contradicts exactly-once"),
    ("A->B.producer.override.acks = 1", "In the file: A->B.producer.override.acks."),
    (
        "A.consumer.isolation.level = read_uncommitted",
        "WRONG_VALUE] A.consumer.isolation.level=read_uncommitted contradicts exactly once",
    ),
    ("B.producer.acks = 1", "cluster B: acks=1 contradicts exactly-once"),
    ("B.exactly.once.source.support = maybe", "WRONG_VALUE] B.exactly.once.source.support=maybe is not one of enabled"),
    (
        "B.exactly.once.source.support = enabled\ntransaction.producer = false",
        "WRONG_VALUE] B.exactly.once.source.support=enabled and transaction.producer=false contradict each other",
    ),
]


@pytest.mark.parametrize(("line", "words"), MISTAKES, ids=[line.partition(" ")[0] for line, _ in MISTAKES])
def test_a_mistake_has_its_message(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(SemelError) as refused:
        read(tmp_path, line)
    assert words in str(refused.value)
    assert "Nothing was" in refused.value.message


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="PROPERTIES"):
        read_properties(tmp_path / "none.properties")
    (tmp_path / "bad.properties").write_bytes(b"a = \xff\xfe secret")
    with pytest.raises(ConfigError, match="UnicodeDecodeError") as refused:
        read_properties(tmp_path / "bad.properties")
    assert "secret" not in str(refused.value)


def test_config_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret.properties").write_text("user = me\nb = from the file")
    (tmp_path / "password").write_text("from a directory")
    monkeypatch.setenv("MIRROR_KEY", "from the environment")
    java = "org.apache.kafka.common.config.provider."
    more = f"""
        config.providers = file, dir, env
        config.providers.file.class = {java}FileConfigProvider
        config.providers.file.param.allowed.paths = {tmp_path}
        config.providers.dir.class = {java}DirectoryConfigProvider
        config.providers.env.class = {java}EnvVarConfigProvider
        config.providers.env.param.allowlist.pattern = MIRROR_.*
        B.client.id = ${{file:{tmp_path}/secret.properties:user}} and ${{other:stays}}
        B.ssl.truststore.password = ${{dir:{tmp_path}:password}}
        B.ssl.key.password = ${{env:MIRROR_KEY}}
        A.client.id = x
    """
    found = read_properties_as_given(tmp_path, more)
    assert found["B.client.id"] == "me and ${other:stays}"
    assert found["B.ssl.truststore.password"] == "from a directory"
    assert found["B.ssl.key.password"] == "from the environment"
    assert not any(key.startswith("config.providers") for key in found)
    for wrong in (
        "${file:/etc/passwd:root}",
        f"${{file:{tmp_path}/none:root}}",
        f"${{dir:{tmp_path}:../password}}",
        "${env:HOME}",
    ):
        with pytest.raises(ConfigError, match="CONFIG_PROVIDER"):
            read_properties_as_given(tmp_path, f"{more}\nB.x = {wrong}")


def read_properties_as_given(tmp_path: Path, more: str) -> dict[str, str]:
    return resolve(dict(javaproperties.loads(PLAIN + more)))[1]
