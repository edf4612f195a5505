"""TLS and SASL on a real broker: who does not come in, and what each of them is told."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import repeat
from pathlib import Path

import pytest

from semel.errors import ConfigError, Retriable, SemelError, Unsupported
from semel.sandbox import Secured
from tests.support.secured import PASSWORD, SecuredKafka, secured_kafka
from tests.wire.support.logins import goes_through, refusal, token_endpoint, token_login

#: For what is tried until the time is up.
QUICK = {"default.api.timeout.ms": 3_000, "request.timeout.ms": 2_000}


@pytest.fixture(scope="module")
def cluster() -> Iterator[SecuredKafka]:
    with secured_kafka() as started:
        yield started


# ---- who does not


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_a_wrong_password(cluster: SecuredKafka, mechanism: str, user: str) -> None:
    refused = refusal(cluster.login(mechanism, user, "wrong-password"))
    assert isinstance(refused, ConfigError)
    assert refused.tag == "AUTHENTICATION"
    assert f"did not let us in as {user} by {mechanism}" in refused.message


def test_a_token_that_is_no_token(cluster: SecuredKafka) -> None:
    login = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.provider": lambda: "wrong-password"}
    refused = refusal({**cluster.tls(), **login})
    assert refused.tag == "AUTHENTICATION"


@pytest.mark.parametrize(("status", "kind"), [(401, ConfigError), (429, Retriable), (503, Retriable)])
def test_a_token_endpoint_that_gives_none(cluster: SecuredKafka, status: int, kind: type[SemelError]) -> None:
    with token_endpoint(statuses=repeat(status)) as (address, _):
        refused = refusal(token_login(cluster, address) | QUICK)
    assert isinstance(refused, kind)
    assert address in refused.message
    assert str(status) in refused.message


def test_a_token_endpoint_that_sends_one_elsewhere_is_not_followed(cluster: SecuredKafka) -> None:
    """The secret would go along."""
    with token_endpoint() as (other, asked), token_endpoint(statuses=repeat(302), elsewhere=other) as (address, _):
        refused = refusal(token_login(cluster, address))
    assert isinstance(refused, ConfigError)
    assert "302" in refused.message
    assert asked == []


def test_a_token_endpoint_that_is_not_there(cluster: SecuredKafka) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{held.getsockname()[1]}/token"
        refused = refusal(token_login(cluster, address) | QUICK)
    assert isinstance(refused, Retriable)
    assert address in refused.message


def test_a_mechanism_that_is_not_offered(cluster: SecuredKafka) -> None:
    refused = refusal(cluster.login("SCRAM-SHA-256", "alice", PASSWORD, "SASL_PLAINTEXT"))
    assert isinstance(refused, Unsupported)
    assert "it offers PLAIN" in refused.message


def test_an_authority_that_is_not_believed(cluster: SecuredKafka, tmp_path: Path) -> None:
    stranger = Secured.make(tmp_path, {})
    refused = refusal(
        {**cluster.login("PLAIN", "alice", PASSWORD), "ssl.truststore.location": str(stranger.truststore)}
    )
    assert isinstance(refused, ConfigError)
    assert refused.tag == "TLS"
    assert "ssl.truststore.location" in refused.message


def test_another_name_than_that_of_the_certificate(cluster: SecuredKafka) -> None:
    login = cluster.login("PLAIN", "alice", PASSWORD)
    login["bootstrap.servers"] = login["bootstrap.servers"].replace("127.0.0.1", "localhost")
    assert "localhost" in refusal(login).message
    goes_through(cluster, {**login, "ssl.endpoint.identification.algorithm": ""}, "any-name")


def test_no_certificate_where_one_is_wanted(cluster: SecuredKafka) -> None:
    refused = refusal(cluster.tls("SSL"))
    assert isinstance(refused, ConfigError)
    assert "ssl.keystore.location" in refused.message


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_a_listener_that_wants_tls_is_spoken_to_without(cluster: SecuredKafka, protocol: str) -> None:
    refused = refusal({"bootstrap.servers": cluster.kafka.servers(protocol), **QUICK})
    assert isinstance(refused, Retriable)
    assert "security.protocol" in refused.message


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_a_listener_without_tls_is_spoken_to_with(cluster: SecuredKafka, protocol: str) -> None:
    refused = refusal(
        {**cluster.login("PLAIN", "alice", PASSWORD), "bootstrap.servers": cluster.kafka.servers(protocol), **QUICK}
    )
    assert isinstance(refused, ConfigError), "it is told at once, and not when the time for repeating is used up"
    assert "does not speak TLS as it is asked for here: it answers without. Nothing was sent." in refused.message
    assert refused.message.endswith("Correct security.protocol, or the port.")


def test_a_listener_that_breaks_the_handshake_off_is_asked_again(cluster: SecuredKafka) -> None:
    """A broker that is being stopped does that too: it may have TLS."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as other:
        ending = other.submit(_hang_up, server)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        refused = refusal({**cluster.login("PLAIN", "alice", PASSWORD), "bootstrap.servers": address, **QUICK})
        server.shutdown(socket.SHUT_RDWR)
        ending.result()
    assert isinstance(refused, Retriable)


def _hang_up(server: socket.socket) -> None:
    with suppress(OSError):
        while True:
            server.accept()[0].close()


def test_a_listener_that_wants_sasl_is_spoken_to_without(cluster: SecuredKafka) -> None:
    refused = refusal({"bootstrap.servers": cluster.kafka.servers("SASL_PLAINTEXT"), **QUICK})
    assert "security.protocol" in refused.message


def test_sasl_where_there_is_none(cluster: SecuredKafka) -> None:
    refused = refusal(
        cluster.login("PLAIN", "alice", PASSWORD, "SASL_PLAINTEXT")
        | {"bootstrap.servers": cluster.kafka.bootstrap_servers}
    )
    assert isinstance(refused, ConfigError)
    assert "security.protocol" in refused.message
