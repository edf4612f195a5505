"""Converters with a real registry: what is registered, what is written, and what is refused before it is written."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trustme
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from semel.connect import Schema, SourceBatch, SourceRecord, arrow_field
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.tasks.rows import Rows, rows_of
from semel.errors import ConfigError, Retriable, Unsupported
from semel.processes.supervisor import State
from semel.sandbox import Sandbox
from semel.sandbox.ports import Ports
from semel.serdes.registry.errors import RegistryUnusable
from semel.serdes.schemas.struct import checked
from tests.connect.support.asking_proxy import asking_proxy
from tests.connect.support.place import Place
from tests.connect.unit.test_config import LINES, WORKER
from tests.support.registry import Registry, read_avro
from tests.support.waiting import wait_for

AVRO = "io.confluent.connect.avro.AvroConverter"
ORDER = Schema.struct(
    {
        "id": Schema.int64(),
        "price": Schema.decimal(2),
        "note": Schema.string(optional=True),
        "tags": Schema.array(Schema.string(), default=[]),
        "at": Schema.timestamp(optional=True),
        "day": Schema.date(),
    },
    name="shop.Order",
)
ROWS: list[dict[str, Any]] = [
    {"id": 1, "price": Decimal("1.50"), "note": None, "tags": ["a", "b"], "at": None, "day": date(2024, 2, 29)},
    {
        "id": -(2**63),
        "price": Decimal("-9.99"),
        "note": "é",
        "tags": [],
        "at": datetime(2024, 1, 1, tzinfo=UTC),
        "day": date(1969, 1, 1),
    },
]
_numbers = count(1)


@pytest.fixture
def topic() -> str:
    return f"registered-{next(_numbers)}"


def config(url: str, kind: str = AVRO, **more: str) -> ConnectorConfig:
    options = {f"value.converter.{name.replace('_', '.')}": value for name, value in more.items()}
    options |= {"value.converter": kind, "value.converter.schema.registry.url": url}
    return ConnectorConfig.parse(LINES | options, WorkerConfig.parse(WORKER))


def record(topic: str, value: Any, schema: Schema | None = ORDER) -> SourceRecord:
    return SourceRecord(topic, value, {"p": 1}, {"n": 1}, value_schema=schema)


def values(rows: Rows | None) -> list[Any]:
    assert rows is not None
    return [value for _, table in rows.tables for value in table["value"].to_pylist()]


def read(registry: Registry, topic: str, written: list[Any]) -> list[Any]:
    """Read values as Confluent's own deserializer does."""
    deserialize = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    return [deserialize(one, SerializationContext(topic, MessageField.VALUE)) for one in written]


def batch(topic: str) -> SourceBatch:
    field = arrow_field("value", ORDER)
    table = pa.table([pa.array(ROWS, field.type)], schema=pa.schema([field]))
    return SourceBatch(topic, table, {"p": 1}, {"n": 1})


def test_records_and_batches_are_read_by_confluents_own(registry: Registry, topic: str) -> None:
    made = config(registry.url)
    alone = values(rows_of([record(topic, row) for row in ROWS], made, 0))
    assert values(rows_of(batch(topic), made, 0)) == alone
    assert read(registry, topic, alone) == ROWS
    assert len(registry.schemas(f"{topic}-value")) == 1
    assert values(rows_of([record(topic, None, ORDER.but(optional=True))], made, 0)) == [None], "a tombstone"


def test_values_without_a_schema(registry: Registry, topic: str) -> None:
    written = values(rows_of([record(topic, {"a": [1, None]}, None)], config(registry.url), 0))
    (made,) = read(registry, topic, written)
    assert [(pair["key"]["string"], [one["long"] for one in pair["value"]["array"]]) for pair in made["map"]] == [
        ("a", [1, None])
    ]


def test_a_schema_that_is_not_compatible(registry: Registry, topic: str) -> None:
    made = config(registry.url)
    rows_of([record(topic, ROWS[0])], made, 0)
    registry.ask("PUT", f"/config/{topic}-value", {"compatibility": "BACKWARD"})
    other = Schema.struct({"id": Schema.int64(), "name": Schema.string()}, name="shop.Order")
    with pytest.raises(ConfigError, match=r"not compatible .*Nothing of this poll is visible") as refused:
        rows_of([record(topic, {"id": 1, "name": "x"}, other)], made, 0)
    assert refused.value.tag == "REGISTRY_INCOMPATIBLE"
    wider = Schema.struct(
        {**{one.name: one.schema for one in ORDER.fields}, "more": Schema.string(optional=True)}, name="shop.Order"
    )
    rows_of([record(topic, {**ROWS[0], "more": "x"}, wider)], made, 0)
    assert len(registry.schemas(f"{topic}-value")) == 2


def test_a_registry_that_is_away_is_asked_again(topic: str) -> None:
    made = config("http://127.0.0.1:9", max_retries="1", retries_wait_ms="1")
    with pytest.raises(Retriable, match="could not be reached") as away:
        rows_of([record(topic, ROWS[0])], made, 0)
    assert away.value.tag == "REGISTRY_AWAY"


@pytest.fixture
def guarded(registry: Registry) -> Iterator[str]:
    """The registry behind a login: alice, with the password secret."""
    with asking_proxy(registry.url, "alice:secret") as (url, _):
        yield url


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_a_wrong_login_fails_the_task_whatever_it_tolerates(guarded: str, topic: str, tolerance: str) -> None:
    options = {"basic_auth_credentials_source": "USER_INFO", "basic_auth_user_info": "alice:wrong"}
    base = config(guarded, **options)
    made = ConnectorConfig.parse(
        LINES
        | {
            "errors.tolerance": tolerance,
            "value.converter": AVRO,
            "value.converter.schema.registry.url": guarded,
            "value.converter.basic.auth.credentials.source": "USER_INFO",
            "value.converter.basic.auth.user.info": "alice:wrong",
        },
        WorkerConfig.parse(WORKER),
    )
    assert base.value.name == made.value.name
    for polled in ([record(topic, ROWS[0])], batch(topic)):
        with pytest.raises(ConfigError, match="refused the login") as refused:
            rows_of(polled, made, 0)
        assert "wrong" not in str(refused.value)
        assert refused.value.tag == "REGISTRY_LOGIN"
        assert tolerance == "none" or isinstance(refused.value, RegistryUnusable)


def test_a_login_by_its_setting_and_in_the_address(guarded: str, registry: Registry, topic: str) -> None:
    by_setting = config(guarded, basic_auth_credentials_source="USER_INFO", basic_auth_user_info="alice:secret")
    in_address = config(guarded.replace("://", "://alice:secret@"))
    for made in (by_setting, in_address):
        assert read(registry, topic, values(rows_of([record(topic, ROWS[0])], made, 0))) == [ROWS[0]]


def test_many_records_of_a_refused_schema_ask_once(registry: Registry, topic: str) -> None:
    rows_of([record(topic, ROWS[0])], config(registry.url), 0)
    registry.ask("PUT", f"/config/{topic}-value", {"compatibility": "BACKWARD"})
    field = arrow_field("value", Schema.struct({"name": Schema.string()}, name="shop.Order"))
    table = pa.table([pa.array([{"name": str(i)} for i in range(64)], field.type)], schema=pa.schema([field]))
    with asking_proxy(registry.url, "alice:secret") as (url, asked):
        options = {
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": "dead",
            "value.converter": AVRO,
            "value.converter.schema.registry.url": url.replace("://", "://alice:secret@"),
        }
        made = ConnectorConfig.parse(LINES | options, WorkerConfig.parse(WORKER))
        rows = rows_of(SourceBatch(topic, table, {"p": 1}, {"n": 1}), made, 0)
    assert rows is not None
    assert (rows.left_out, [(name, one.num_rows) for name, one in rows.tables]) == (64, [("dead", 64)])
    assert len(asked) == 1


def test_a_key_has_its_own_subject(registry: Registry, topic: str) -> None:
    options = {"key.converter": AVRO, "key.converter.schema.registry.url": registry.url}
    made = ConnectorConfig.parse(LINES | options, WorkerConfig.parse(WORKER))
    keyed = SourceRecord(topic, "x", {"p": 1}, {"n": 1}, key=5, key_schema=Schema.int32())
    rows = rows_of([keyed], made, 0)
    assert rows is not None
    ((_, table),) = rows.tables
    assert read(registry, topic, table["key"].to_pylist()) == [5]
    assert (registry.schemas(f"{topic}-key"), registry.schemas(f"{topic}-value")) == (['"int"'], [])


def test_two_logins_are_a_sentence(topic: str) -> None:
    options = {"basic_auth_credentials_source": "USER_INFO", "basic_auth_user_info": "a:b"}
    made = config("http://a:b@127.0.0.1:9", **options)
    with pytest.raises(ConfigError, match="settings of the registry cannot be used"):
        rows_of([record(topic, ROWS[0])], made, 0)


def test_a_login_by_a_token(registry: Registry, topic: str) -> None:
    with asking_proxy(registry.url, "Bearer abc") as (url, _):
        options = {"bearer_auth_credentials_source": "STATIC_TOKEN", "bearer_auth_logical_cluster": "lsrc-1"}
        made = config(url, bearer_auth_token="abc", **options)
        assert read(registry, topic, values(rows_of([record(topic, ROWS[0])], made, 0))) == [ROWS[0]]
        made = config(url, bearer_auth_token="secret", **options)
        with pytest.raises(RegistryUnusable, match="refused the login") as refused:
            made.value.value(ORDER, checked(ORDER, ROWS[0]), "value", topic)
    assert "secret" not in str(refused.value)


def test_tls_with_a_certificate_of_the_clients(registry: Registry, topic: str, tmp_path: Path) -> None:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.configure_trust(tls)
    tls.verify_mode = ssl.CERT_REQUIRED
    trusted, own = tmp_path / "trusted.pem", tmp_path / "own.pem"
    authority.cert_pem.write_to_path(trusted)
    authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(own)
    stores = {"schema_registry_ssl_truststore_location": str(trusted)}
    with asking_proxy(registry.url, "alice:secret", tls=tls) as (url, _):
        address = url.replace("://", "://alice:secret@")
        made = config(address, schema_registry_ssl_keystore_location=str(own), **stores)
        assert read(registry, topic, values(rows_of([record(topic, ROWS[0])], made, 0))) == [ROWS[0]]
        for more in ({}, stores):  # not trusted, and without a certificate of its own
            made = config(address, max_retries="0", **more)
            with pytest.raises(Retriable, match="could not be reached"):
                rows_of([record(topic, ROWS[0])], made, 0)
    with pytest.raises(Unsupported, match=r"schema.registry.ssl.truststore.location=.* is not there yet"):
        config("https://localhost", schema_registry_ssl_truststore_location="trust.jks")


def test_schemas_that_may_not_be_registered(registry: Registry, topic: str) -> None:
    made = config(registry.url, auto_register_schemas="false")
    with pytest.raises(ConfigError, match="Register it, or set") as missing:
        rows_of([record(topic, ROWS[0])], made, 0)
    assert missing.value.tag == "REGISTRY_MISSING"
    first = values(rows_of([record(topic, ROWS[0])], config(registry.url), 0))
    made = config(registry.url, auto_register_schemas="false")
    assert values(rows_of([record(topic, ROWS[0])], made, 0)) == first


_NEWEST = """{"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "more", "type": "string",
 "default": "none"}, {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"], "default": null}]}"""


def test_the_newest_schema_of_the_subject(registry: Registry, topic: str) -> None:
    """A record is written as the registered schema has it: its own fields, in its order, with its defaults."""
    registry.ask("POST", f"/subjects/{topic}-value/versions", {"schema": _NEWEST})
    made = config(registry.url, auto_register_schemas="false", use_latest_version="true")
    schema = Schema.struct({"id": Schema.int32()}, name="shop.Order")
    written = values(rows_of([record(topic, {"id": 7}, schema)], made, 0))
    assert read(registry, topic, written) == [{"more": "none", "id": 7, "name": None}]
    wider = Schema.struct({"id": Schema.int32(), "lost": Schema.int32()}, name="shop.Order")
    with pytest.raises(ConfigError, match="'lost' that the registered schema lacks"):
        rows_of([record(topic, {"id": 7, "lost": 1}, wider)], made, 0)
    with pytest.raises(ConfigError, match="does not fit the registered schema"):
        rows_of([record(topic, {"id": "x"}, Schema.struct({"id": Schema.string()}, name="shop.Order"))], made, 0)


def test_a_registered_schema_that_refers_to_another(registry: Registry, topic: str) -> None:
    item = '{"type": "record", "name": "Item", "namespace": "shop", "fields": [{"name": "n", "type": "int"}]}'
    registry.ask("POST", f"/subjects/{topic}-item/versions", {"schema": item})
    row = '{"type": "record", "name": "Row", "namespace": "shop", "fields": [{"name": "a", "type": "shop.Item"}]}'
    references = [{"name": "shop.Item", "subject": f"{topic}-item", "version": 1}]
    registry.ask("POST", f"/subjects/{topic}-value/versions", {"schema": row, "references": references})
    made = config(registry.url, auto_register_schemas="false", use_latest_version="true")
    schema = Schema.struct({"a": Schema.struct({"n": Schema.int32()}, name="shop.Item")}, name="shop.Row")
    written = values(rows_of([record(topic, {"a": {"n": 5}}, schema)], made, 0))
    assert read(registry, topic, written) == [{"a": {"n": 5}}]


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("RecordNameStrategy", "shop.Named"), ("TopicRecordNameStrategy", "{topic}-shop.Named")],
)
def test_subjects(registry: Registry, topic: str, strategy: str, subject: str) -> None:
    made = config(registry.url, value_subject_name_strategy=f"io.confluent.kafka.serializers.subject.{strategy}")
    rows_of([record(topic, {"id": 1}, Schema.struct({"id": Schema.int32()}, name="shop.Named"))], made, 0)
    assert registry.schemas(subject.format(topic=topic))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"schema.registry.url": ""}, "value.converter.schema.registry.url is missing"),
        ({"schema.registry.url": "localhost:8081"}, "is not an address"),
        ({"schema.registry.urls": "x"}, "did you mean"),
        ({"auto.register.schemas": "maybe"}, "is not true or false"),
        ({"value.subject.name.strategy": "my.Strategy"}, "not there yet"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "a name and a password"),
        ({"use.latest.with.metadata": "a=b"}, "not there yet"),
        ({"generalized.sum.type.support": "true"}, "not there yet"),
    ],
)
def test_options_are_checked_before_anything_runs(options: Mapping[str, str], said: str) -> None:
    given = {"schema.registry.url": "http://localhost:8081", **options}
    with pytest.raises(Exception, match=said):
        ConnectorConfig.parse(
            LINES | {"value.converter": AVRO} | {f"value.converter.{name}": one for name, one in given.items()},
            WorkerConfig.parse(WORKER),
        )


def test_options_that_change_nothing_are_taken(registry: Registry, topic: str) -> None:
    more = {"schemas_enable": "true", "schemas_cache_config": "10", "generalized_sum_type_support": "false"}
    made = config(registry.url, **more)
    assert read(registry, topic, values(rows_of([record(topic, ROWS[0])], made, 0))) == [ROWS[0]]


def test_a_worker_waits_for_its_registry(
    spark: SparkSession, kafka: Sandbox, registry: Registry, tmp_path: Path
) -> None:
    """The task starts again until the registry is there. Then each record is there once."""
    place, ports = Place(spark, kafka.bootstrap_servers, tmp_path), Ports(1)
    url = f"http://alice:secret@127.0.0.1:{ports.numbers[0]}"
    options = {"schema.registry.url": url, "max.retries": "0"}
    more = {"value.converter": AVRO} | {f"value.converter.{name}": one for name, one in options.items()}
    with place.running(place.numbers(30, **more)) as running:
        task = f"{place.name}-0"
        wait_for(lambda: task in running.states and "REGISTRY_AWAY" in str(running.states[task]), "that it is away")
        assert running.states[task].state is not State.FAILED
        with asking_proxy(registry.url, "alice:secret", ports.numbers[0]):
            place.wait_arrived(30)
    ports.release()
    found = [one for index in range(3) for one in read_avro(place.servers, place.topic, registry.url, index)]
    assert sorted(one["string"] for one in found) == sorted(map(str, range(30)))


def test_bytes_alone_have_no_length(registry: Registry, topic: str) -> None:
    registry.ask("POST", f"/subjects/{topic}-value/versions", {"schema": '{"type": "bytes", "doc": "theirs"}'})
    made = config(registry.url, auto_register_schemas="false", use_latest_version="true")
    (value,) = values(rows_of([record(topic, b"\xff" * 300, Schema.bytes())], made, 0))
    assert value[5:] == b"\xff" * 300
    with pytest.raises(ConfigError, match="one of the two is other bytes"):
        rows_of([record(topic, "x", Schema.string())], made, 0)
