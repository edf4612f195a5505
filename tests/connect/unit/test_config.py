"""A worker's and a connector's properties: what is taken, and how the rest is refused."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from semel.connect.api import Setting, SourceConnector, SourceTask
from semel.connect.plugins import connector_class
from semel.connect.settings.connector_config import ConnectorConfig, ConnectorConfigParser
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.worker.worker import Worker
from semel.errors import ConfigError, SemelError

STRING = "org.apache.kafka.connect.storage.StringConverter"
WORKER = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "g",
    "offset.storage.topic": "offsets",
    "key.converter": STRING,
    "value.converter": STRING,
}
LINES = {"name": "lines", "connector.class": "FileStreamSource", "file": "/f", "topic": "t"}
HERE = "tests.connect.unit.test_config"


class Numbers(SourceConnector):
    config: ClassVar[Mapping[str, type | Setting]] = {
        "limit": Setting(int, default=3, at_least=1),
        "ratio": Setting(float, default=0.5),
        "loud": bool,
    }

    def task(self) -> SourceTask:
        return SourceTask()

    def tasks(self, config: Any, max_tasks: int) -> Any:
        return [config] * (0 if config["limit"] == 7 else max_tasks)

    def exactly_once_support(self, config: Any) -> bool | None:
        return None if config["loud"] else False


class Broken(SourceConnector):
    def tasks(self, config: Any, max_tasks: int) -> Any:
        raise LookupError("no such schema")


NUMBERS = {"name": "n", "connector.class": f"{HERE}.Numbers", "loud": "true"}


MADE = {
    "topic.creation.default.replication.factor": "-1",
    "topic.creation.default.partitions": "3",
    "topic.creation.default.cleanup.policy": "compact",
}


def worker(**more: str) -> WorkerConfig:
    return WorkerConfig.parse(WORKER | {name.replace("_", "."): value for name, value in more.items()})


def test_defaults_are_kafkas() -> None:
    config = worker()
    assert (config.offsets_partitions, config.offsets_replication) == (25, None)
    assert (config.flush_interval_ms, config.graceful_timeout_ms) == (60_000, 5_000)
    assert not config.exactly_once
    assert worker(exactly_once_source_support="enabled").exactly_once
    assert worker(exactly_once_source_support="Enabled").exactly_once  # in any case, as Kafka Connect takes it


def test_the_clients_properties_and_the_producers() -> None:
    config = worker(request_timeout_ms="5000", producer_compression_type="zstd")
    assert config.client["request.timeout.ms"] == config.producer["request.timeout.ms"] == "5000"
    assert config.producer["compression.type"] == "zstd"
    assert "compression.type" not in config.client


def test_what_belongs_to_a_jvm_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    worker(plugin_path="/plugins", scheduled_rebalance_max_delay_ms="1", connect_protocol="eager")
    assert [record.getMessage() for record in caplog.records] == [
        "these properties of the worker change nothing here: connect.protocol, plugin.path,"
        " scheduled.rebalance.max.delay.ms"
    ]
    caplog.clear()
    worker(
        offset_flush_timeout_ms="5000",
        metadata_recovery_strategy="rebootstrap",
        header_converter="org.apache.kafka.connect.storage.SimpleHeaderConverter",
        key_converter_schemas_enable="true",  # of a StringConverter
        response_http_headers_config="",
        access_control_allow_methods="",
    )
    assert [record.getMessage() for record in caplog.records] == [
        "these properties of the worker change nothing here: header.converter, key.converter.schemas.enable,"
        " metadata.recovery.strategy, offset.flush.timeout.ms"
    ]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"errors.retry.timeout": "0", "tasks.max.enforce": "true"}, ""),
        ({"tasks.max.enforce": "false"}, "tasks.max.enforce"),
        ({"errors.retry.delay.max.ms": "5", "connector.plugin.version": "1"}, "connector.plugin.version, errors.retry"),
        ({"header.converter": STRING, "header.converter.plugin.version": "1"}, "header.converter, header.converter.pl"),
        ({"value.converter": "Json", "value.converter.plugin.version": "1"}, "value.converter.plugin.version"),
        ({"value.converter": "Json", "value.converter.schemas.enable": "false"}, ""),
        ({"value.converter": STRING, "value.converter.converter.encoding": "utf8"}, ""),
        ({"value.converter": STRING, "value.converter.schemas.enable": "false"}, "value.converter.schemas.enable"),
        ({"value.converter.schemas.enable": "false"}, "value.converter.schemas.enable"),  # the worker's counts
    ],
)
def test_what_changes_nothing_for_a_connector_is_named_once(
    given: dict[str, str], named: str, caplog: pytest.LogCaptureFixture
) -> None:
    connector = LINES | given | {"name": f"names {given}"}
    for _ in range(2):
        assert ConnectorConfig.parse(connector, worker())
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == bool(named)
    assert all(f"change nothing here: {named}" in one for one in said)


@pytest.mark.parametrize(
    ("setting", "value", "tag"),
    [
        ("errors.retry.timeout", "-1", "NOT_YET"),
        ("errors.retry.timeout", "60000", "NOT_YET"),
        ("errors.retry.timeout", "long", "WRONG_VALUE"),
        ("errors.retry.delay.max.ms", "soon", "WRONG_VALUE"),
        ("tasks.max.enforce", "no", "WRONG_VALUE"),
        ("header.converter", "org.apache.kafka.connect.json.JsonConverter", "NOT_YET"),
        ("header.converter.converter.encoding", "UTF-16", "NOT_YET"),
        ("header.converter.schemas.enabled", "false", "UNKNOWN_OPTION"),
        ("value.converter.decimal.format", "TEXT", "WRONG_VALUE"),
        ("value.converter.schemas.enable", "no", "WRONG_VALUE"),
        ("value.converter.schemas.enabled", "false", "UNKNOWN_OPTION"),
        ("key.converter.converter.encoding", "ISO-8859-1", "NOT_YET"),
        ("key.converter.encoding", "UTF-8", "UNKNOWN_OPTION"),
    ],
)
def test_what_would_change_the_result_is_refused_at_its_setting(setting: str, value: str, tag: str) -> None:
    examination = ConnectorConfigParser(
        LINES | {"key.converter": STRING, "value.converter": "Json", setting: value}, worker()
    )
    assert [(one.setting, one.tag) for one in examination.problems] == [(setting, tag)]
    shown = next(one["value"] for one in examination.values() if one["value"]["name"] == setting)
    assert shown["value"] == value
    assert len(shown["errors"]) == 1
    assert setting in str(examination.problems[0].error("lines"))


@pytest.mark.parametrize(
    ("wrong", "tag", "text"),
    [
        ({"group.id": ""}, "MISSING_OPTION", "group.id is missing"),
        ({"ofset.storage.topic": "x"}, "UNKNOWN_OPTION", "did you mean offset.storage.topic?"),
        ({"config.storage.topic": "c"}, "MISSING_OPTION", "status.storage.topic is missing"),
        ({"rest.port": "8083"}, "NOT_YET", "rest.port is not there yet"),
        ({"config.storage.topc": "c"}, "UNKNOWN_OPTION", "did you mean config.storage.topic?"),
        ({"offset.storage.min.insync.replicas": "2"}, "NOT_YET", "min.insync.replicas is not there yet"),
        ({"listeners": "https://:8083"}, "MISSING_OPTION", "Give listeners.https.ssl.keystore.location"),
        ({"rest.advertised.listener": "https", "listeners": "http://:1"}, "WRONG_VALUE", "has no listener"),
        ({"semel.rest.credentials.file": "/nowhere"}, "REST_LOGIN", "cannot be read: No such file"),
        ({"rest.extension.classes": "BasicAuthSecurityRestExtension"}, "REST_LOGIN", "no file has them"),
        ({"listeners": "localhost"}, "WRONG_VALUE", "is not an address"),
        ({"rest.extension.classes": "a.B"}, "NOT_YET", "Java class"),
        ({"config.storage.topic": "offsets", "status.storage.topic": "s"}, "WRONG_VALUE", "have one name"),
        ({"exactly.once.source.support": "on"}, "WRONG_VALUE", "not one of disabled, preparing, enabled"),
        (
            {"offset.flush.interval.ms": "soon"},
            "WRONG_VALUE",
            "offset.flush.interval.ms=soon is not a whole number of at least 0",
        ),
        (
            {"offset.storage.partitions": "0"},
            "WRONG_VALUE",
            "offset.storage.partitions=0 is not a whole number of at least 1",
        ),
        (
            {"value.converter": "io.confluent.connect.avro.AvroConverter"},
            "MISSING_OPTION",
            "schema.registry.url is missing",
        ),
        ({"value.converter": "my.shop.CsvConverter"}, "PLUGIN_MISSING", "my.shop.CsvConverter cannot be imported"),
        ({"value.converter": "CsvConverter"}, "WRONG_VALUE", "is not a known converter"),
        (
            {"value.converter": "JsonConverter", "value.converter.schemas.enable": "no"},
            "WRONG_VALUE",
            "enable=no is not true",
        ),
        (
            {"value.converter": "JsonConverter", "value.converter.decimal.format": "TEXT"},
            "WRONG_VALUE",
            "is not one of BASE64, NUMERIC",
        ),
        ({"key.converter.converter.encoding": "UTF-16"}, "NOT_YET", "text is written as UTF-8"),
        ({"key.converter.shemas.enable": "true"}, "UNKNOWN_OPTION", "mean key.converter.schemas.enable?"),
        ({"header.converter": "JsonConverter"}, "NOT_YET", "headers are written as they are"),
        ({"access.control.allow.methods": "GET"}, "NOT_YET", "access.control.allow.methods is not there yet"),
        ({"response.http.headers.config": "add X: y"}, "NOT_YET", "a proxy with it"),
        ({"value.converter": "StrigConverter"}, "WRONG_VALUE", "did you mean StringConverter?"),
        ({"producer.acks": "1"}, "WRONG_VALUE", "acks=1 contradicts exactly-once"),
    ],
)
def test_a_worker_that_is_refused(wrong: dict[str, str], tag: str, text: str) -> None:
    with pytest.raises(SemelError) as refused:
        WorkerConfig.parse(WORKER | wrong)
    assert refused.value.tag == tag
    assert text in refused.value.message


@pytest.mark.parametrize(
    "name",
    [
        "FileStreamSource",
        "FileStreamSourceConnector",
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "semel.connect.connectors.file.FileStreamSource",
        "semel.connect.connectors.file:FileStreamSource",
    ],
)
def test_names_of_a_connector(name: str) -> None:
    assert connector_class(name).__name__ == "FileStreamSource"


def test_a_connectors_own_settings_have_their_types() -> None:
    assert ConnectorConfig.parse(LINES, worker()).own == {"file": "/f", "topic": "t", "batch.size": 2000}
    config = ConnectorConfig.parse(NUMBERS | {"limit": "12", "ratio": "2", "tasks.max": "4"}, worker())
    assert config.own == {"limit": 12, "ratio": 2.0, "loud": True}
    assert config.max_tasks == 4


def test_each_problem_is_named_once_at_its_setting() -> None:
    given = {"connector.class": "FileStreamSource", "file": "/f", "tasks.max": "many", "errors.tolerance": "some"}
    given |= {"tpic": "t", "transforms": "a", "errors.log.enable": "yes", "batch.size": "0"}
    parser = ConnectorConfigParser(given, worker())
    assert parser.config is None
    assert [(one.setting, one.tag) for one in parser.problems] == [
        ("name", "MISSING_OPTION"),
        ("transforms.a.type", "WRONG_VALUE"),
        ("tpic", "UNKNOWN_OPTION"),
        ("tasks.max", "WRONG_VALUE"),
        ("errors.tolerance", "WRONG_VALUE"),
        ("errors.log.enable", "WRONG_VALUE"),
        ("topic", "MISSING_OPTION"),
        ("batch.size", "WRONG_VALUE"),
    ]
    errors = {one["value"]["name"]: one["value"]["errors"] for one in parser.values() if one["value"]["errors"]}
    assert errors == {one.setting: [one.text] for one in parser.problems}
    assert errors["tasks.max"] == ["Invalid value many for configuration tasks.max: Not a number of type INT."]


@pytest.mark.parametrize(
    ("given", "tag", "text"),
    [
        (LINES | {"name": " "}, "MISSING_OPTION", '"name" which has no default'),
        (LINES | {"name": "a\x85b"}, "WRONG_VALUE", "control sequences but had the following ASCII chars: 133"),
        ({"name": "lines", "file": "/f"}, "MISSING_OPTION", '"connector.class" which'),
        ({**LINES, "file": ""} | {"fil": "/f"}, "UNKNOWN_OPTION", "did you mean file?"),
        ({name: LINES[name] for name in LINES if name != "topic"}, "MISSING_OPTION", '"topic" which has no'),
        (LINES | {"batch.size": "0"}, "WRONG_VALUE", "batch.size: Value must be at least 1"),
        (NUMBERS | {"loud": "yes"}, "WRONG_VALUE", "loud: Expected value to be either true or false"),
        (LINES | {"topic.creation.groups": "a"}, "MISSING_OPTION", '"topic.creation.default.replication.factor" which'),
        (LINES | MADE | {"topic.creation.groups": "a"}, "MISSING_OPTION", '"topic.creation.a.include" which has no'),
        (
            LINES | MADE | {"topic.creation.b.partitions": "2"},
            "WRONG_VALUE",
            "groups does not name b",
        ),
        (LINES | MADE | {"topic.creation.default.partitions": "0"}, "WRONG_VALUE", "must be -1, or at least 1"),
        (
            LINES | MADE | {"topic.creation.groups": "a", "topic.creation.a.include": "("},
            "WRONG_VALUE",
            "Invalid value ( for configuration topic.creation.a.include",
        ),
        (LINES | {"offsets.storage.topic": " "}, "WRONG_VALUE", "offsets.storage.topic: String may not be empty"),
        (
            LINES | {"producer.override.linger": "1"},
            "UNKNOWN_OPTION",
            "producer.override.linger: linger is not a known",
        ),
        (
            LINES | {"consumer.override.bootstrap.servers": "b:1"},
            "WRONG_VALUE",
            "Give producer.override.bootstrap.servers",
        ),
        (LINES | {"errors.tolerance": "some"}, "WRONG_VALUE", "errors.tolerance: String must be one of"),
        (LINES | {"transaction.boundary": "connector"}, "WRONG_VALUE", "does not support connector-defined"),
        (LINES | {"transaction.boundary": "never"}, "WRONG_VALUE", "String must be one of (case insensitive)"),
        (LINES | {"connector.class": "com.acme.Jdbc"}, "JAVA_CONNECTOR", "is a Java class"),
        (LINES | {"connector.class": "no.such.Thing"}, "CONNECTOR_MISSING", "--py-files"),
        (LINES | {"connector.class": "json.JSONDecoder"}, "CONNECTOR_MISSING", "is not a connector"),
    ],
)
def test_a_connector_that_is_refused(given: dict[str, str], tag: str, text: str) -> None:
    with pytest.raises(SemelError) as refused:
        ConnectorConfig.parse(given, worker())
    assert refused.value.tag == tag
    assert text in refused.value.message


def test_other_workers_find_one_that_listens_everywhere_by_its_name() -> None:
    for given in ("http://:8083", "http://0.0.0.0:8083", "http://[::]:8083"):
        assert worker(listeners=given).rest.advertised == f"{socket.gethostname()}:8083"
    assert worker(listeners="http://10.0.0.1:1").rest.advertised == "10.0.0.1:1"


def test_https_and_logins_as_kafka_connect_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of users is found where Kafka's own extension finds it."""
    users, jaas = tmp_path / "users.properties", tmp_path / "jaas.conf"
    users.write_text("ada=secret: of=hers\n\n# none\nbob=b\n")
    module = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
    jaas.write_text(f'Other {{ a.B required; }};\nKafkaConnect {{\n  {module} required\n  file="{users}";\n}};\n')
    monkeypatch.setenv("KAFKA_OPTS", f"-Dx=y -Djava.security.auth.login.config={jaas}")
    extension = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
    https = {"listeners": "https://10.0.0.1:8443,http://:1", "listeners.https.ssl.keystore.location": "/k.pem"}
    made = worker(**{"rest.extension.classes": extension, "rest.advertised.listener": "https"}, **https).rest
    assert made.credentials == {"ada": "secret: of=hers", "bob": "b"}
    assert "secret" not in repr(made)
    assert (made.address, made.scheme) == ("https://10.0.0.1:8443", "https")
    assert made.tls is not None
    assert (made.tls.keystore_location, made.client_auth) == ("/k.pem", "none")
    assert worker(**https).rest.scheme == "http"
    assert worker(**https).rest.credentials is None
    jaas.write_text("KafkaConnect { a.B required; };")
    with pytest.raises(ConfigError, match="has no file of logins"):
        worker(**{"rest.extension.classes": extension})
    users.write_text("\n")
    with pytest.raises(ConfigError, match="has no user"):
        worker(**{"semel.rest.credentials.file": str(users)})


def test_what_a_connector_may_override() -> None:
    given = LINES | {
        "producer.override.bootstrap.servers": "b:2",
        "producer.override.transactional.id": "mine",
        "admin.override.request.timeout.ms": "7",
    }
    clients = ConnectorConfig.parse(given, worker(producer_client_id="p", admin_client_id="a")).clients
    assert clients.producer == {"bootstrap.servers": "b:2", "client.id": "p"}
    assert clients.admin == {"bootstrap.servers": "localhost:9092", "client.id": "a", "request.timeout.ms": "7"}
    assert clients.elsewhere
    assert not ConnectorConfig.parse(LINES, worker()).has_own_offsets
    for policy in ("None", "org.apache.kafka.connect.connector.policy.PrincipalConnectorClientConfigOverridePolicy"):
        with pytest.raises(ConfigError, match=r"policy does not allow 'bootstrap.servers' to be overridden"):
            ConnectorConfig.parse(given, worker(connector_client_config_override_policy=policy))
    login = LINES | {"producer.override.security.protocol": "PLAINTEXT"}
    assert ConnectorConfig.parse(login, worker(connector_client_config_override_policy="Principal"))


def test_topics_are_made_as_their_first_group_says() -> None:
    given = MADE | {
        "topic.creation.groups": "short, all",
        "topic.creation.short.include": "a.*, b",
        "topic.creation.short.exclude": "a2",
        "topic.creation.short.retention.ms": "1000",
        "topic.creation.all.include": ".*2",
        "topic.creation.all.partitions": "7",
    }
    creation = ConnectorConfig.parse(LINES | given, worker()).topic_creation
    assert creation is not None

    def chosen(topic: str) -> tuple[int, int, object]:
        group = next(group for group in creation.groups if group.takes(topic))
        return group.partitions, group.replication, group.config

    assert chosen("a1") == (3, -1, {"retention.ms": "1000"})
    assert chosen("a2") == (7, -1, {})
    assert chosen("ba") == (3, -1, {"cleanup.policy": "compact"})
    assert ConnectorConfig.parse(LINES | given, worker(topic_creation_enable="false")).topic_creation is None
    assert ConnectorConfig.parse(LINES, worker()).topic_creation is None


def test_required_exactly_once_is_checked_before_the_start() -> None:
    required = {"exactly.once.support": "required"}
    enabled = worker(exactly_once_source_support="enabled")
    assert ConnectorConfig.parse(LINES | required, enabled).name == "lines"
    with pytest.raises(ConfigError, match="does not have exactly-once source support enabled"):
        ConnectorConfig.parse(LINES | required, worker())
    with pytest.raises(ConfigError, match="does not implement the API for preflight validation"):
        ConnectorConfig.parse(NUMBERS | required, enabled)
    with pytest.raises(ConfigError, match="does not support exactly-once with this configuration"):
        ConnectorConfig.parse(NUMBERS | required | {"loud": "false"}, enabled)


def test_a_worker_checks_its_connectors() -> None:
    assert [one.name for one in Worker(WORKER, [LINES, NUMBERS]).connectors] == ["lines", "n"]
    with pytest.raises(ConfigError, match="two connectors are named 'lines'"):
        Worker(WORKER, [LINES, LINES])
    with pytest.raises(ConfigError, match="there are no connectors, and no listeners"):
        Worker(WORKER, [])
