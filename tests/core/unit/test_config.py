"""Settings: Kafka's names, refused where they are unknown, malformed, contradictory, or would weaken what was asked
for.
"""

import logging

import pytest

from semel import config
from semel.config import ClientConfig, parse_servers
from semel.errors import ConfigError

SERVERS = {"bootstrap.servers": "localhost:9092"}


def parse(**properties: object) -> ClientConfig:
    return ClientConfig.parse({**SERVERS, **{name.replace("_", "."): value for name, value in properties.items()}})


def test_defaults_are_kafkas_with_two_exceptions() -> None:
    parsed = parse()
    assert parsed.bootstrap_servers == (("localhost", 9092),)
    assert (parsed.request_timeout_ms, parsed.delivery_timeout_ms, parsed.default_api_timeout_ms) == (
        30_000,
        120_000,
        60_000,
    )
    assert (parsed.retry_backoff_ms, parsed.retry_backoff_max_ms, parsed.metadata_max_age_ms) == (100, 1_000, 300_000)
    assert (parsed.fetch_min_bytes, parsed.fetch_max_bytes, parsed.fetch_max_wait_ms) == (1, 52_428_800, 500)
    assert (parsed.max_partition_fetch_bytes, parsed.max_request_size, parsed.compression_type) == (
        1_048_576,
        1_048_576,
        "none",
    )
    assert parsed.isolation_level == "read_committed"
    assert parsed.transaction_timeout_ms is None


def test_values_are_read_from_text_and_from_numbers() -> None:
    parsed = parse(
        request_timeout_ms="500",
        transaction_timeout_ms=60_000,
        compression_type=" ZSTD ",
        security_protocol="plaintext",
    )
    assert (parsed.request_timeout_ms, parsed.transaction_timeout_ms) == (500, 60_000)
    assert (parsed.compression_type, parsed.security.protocol) == ("zstd", "PLAINTEXT")


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("a:1", [("a", 1)]),
        ("a:1,b:65535", [("a", 1), ("b", 65535)]),
        (" a:1 , b:2 ,", [("a", 1), ("b", 2)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("SASL_SSL://a.example.com:9092, plaintext://b:1", [("a.example.com", 9092), ("b", 1)]),
        ("SSL://[::1]:9092", [("::1", 9092)]),
        # these as Kafka 4.3.1's Utils.getHost and getPort read them
        ("::1:9092", [("::1", 9092)]),
        ("SSL://::1:9092, b:1", [("::1", 9092), ("b", 1)]),
        ("2001:db8::7:9092", [("2001:db8::7", 9092)]),
        ("::ffff:10.0.0.1:9092", [("::ffff:10.0.0.1", 9092)]),
        ("1:2:3:4:5:6:7:8:9092", [("1:2:3:4:5:6:7:8", 9092)]),
        ("fe80::1%eth0:9092,[fe80::1%eth0]:1", [("fe80::1%eth0", 9092), ("fe80::1%eth0", 1)]),
    ],
)
def test_servers(text: str, servers: list[tuple[str, int]]) -> None:
    assert list(parse_servers(text)) == servers


@pytest.mark.parametrize(
    "text",
    [
        "localhost",
        "localhost:",
        "localhost:kafka",
        "localhost:0",
        "localhost:65536",
        ":9092",
        "a:1,b",
        "a:\u00b2",
        "a:1;b:2",
        "http://a:1",
        "SSL:a:1",
        "a:1:2",
        "::1",
        "::g:9092",
        "[a]:1",
        "[]:1",
        "[::1:9092",
        "::1]:9092",
        "a b:1",
    ],
)
def test_servers_that_are_none_are_named(text: str) -> None:
    with pytest.raises(ConfigError, match="is not host:port"):
        parse_servers(text)


@pytest.mark.parametrize("value", [None, "", " , "])
def test_without_servers_there_is_no_cluster(value: str | None) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap.servers"):
        ClientConfig.parse({} if value is None else {"bootstrap.servers": value})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("request.timout.ms", "did you mean request.timeout.ms?"),
        ("linger.mss", "did you mean linger.ms?"),
        ("bootstrap.server", "did you mean bootstrap.servers?"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=rf"^\[SEMEL_UNKNOWN_OPTION\] {name} is not a known property; ") as raised:
        ClientConfig.parse({**SERVERS, name: "1"})
    assert hint in str(raised.value)


def test_an_unknown_name_without_a_near_one_gets_no_hint() -> None:
    with pytest.raises(
        ConfigError, match=r"xyz is not a known property\. Nothing was read or written\. Correct or remove it\.$"
    ):
        ClientConfig.parse({**SERVERS, "xyz": "1"})


@pytest.mark.parametrize(
    ("name", "value"), [("acks", "1"), ("acks", "0"), ("enable.idempotence", "false"), ("enable.auto.commit", "true")]
)
def test_what_contradicts_exactly_once_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name}={value} contradicts exactly-once"):
        ClientConfig.parse({**SERVERS, name: value})


@pytest.mark.parametrize(
    ("name", "value"), [("acks", "all"), ("acks", "-1"), ("enable.idempotence", "TRUE"), ("enable.auto.commit", False)]
)
def test_the_same_names_are_taken_with_their_harmless_values(name: str, value: object) -> None:
    assert ClientConfig.parse({**SERVERS, name: value}) == parse()


def test_what_means_nothing_here_is_named_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "_warned", set())
    caplog.set_level(logging.WARNING, "semel")
    for _ in range(3):
        ClientConfig.parse({**SERVERS, "linger.ms": "5", "buffer.memory": "1"})
    (record,) = caplog.records
    assert "buffer.memory, linger.ms" in record.getMessage()
    ClientConfig.parse({**SERVERS, "linger.ms": "5"})
    assert len(caplog.records) == 2


@pytest.mark.parametrize("value", ["", "many", "1.5", "0x10", "-1", "0"])
def test_numbers_are_whole_and_make_sense(value: str) -> None:
    with pytest.raises(ConfigError, match=r"request\.timeout\.ms="):
        parse(request_timeout_ms=value)


def test_numbers_are_no_larger_than_kafka_takes() -> None:
    with pytest.raises(ConfigError, match=r"transaction\.timeout\.ms=1000000000000 is above 2147483647"):
        parse(transaction_timeout_ms=10**12)
    assert parse(metadata_max_age_ms=2**63 - 1).metadata_max_age_ms == 2**63 - 1


def test_a_number_that_may_be_zero_may() -> None:
    assert parse(retry_backoff_ms="0", fetch_min_bytes=0).retry_backoff_ms == 0


@pytest.mark.parametrize(("name", "value"), [("isolation.level", "serializable"), ("compression.type", "brotli")])
def test_words_are_one_of_those_that_there_are(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name}={value} is none of "):
        ClientConfig.parse({**SERVERS, name: value})


def test_timeouts_are_checked_together() -> None:
    with pytest.raises(ConfigError, match=r"delivery\.timeout\.ms=1000 is below request\.timeout\.ms=2000"):
        parse(delivery_timeout_ms=1000, request_timeout_ms=2000)
    assert parse(delivery_timeout_ms=2000, request_timeout_ms=2000).delivery_timeout_ms == 2000


def test_settings_cannot_be_changed_afterwards() -> None:
    with pytest.raises(AttributeError):
        parse().__setattr__("client_id", "other")
