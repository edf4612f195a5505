"""TLS and SASL on a real broker: who comes in, who does not, and what each of them is told."""

from __future__ import annotations

import json
import logging
import pickle
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import semel
from semel import cli
from semel.errors import ConfigError, Retriable, SemelError, Unsupported
from semel.sandbox import Secured
from semel.wire import connection as wire
from semel.wire import oauth, security
from semel.wire.target import ANY
from tests.spark.support.topics_and_drivers import values
from tests.support import topics
from tests.support.secured import EVERYTHING, LOGIN_MS, PASSWORD, SecuredKafka, secured_kafka, unsigned_token
from tests.support.waiting import wait_for

SECRET = "clientsecret-of-alice"
#: For what is tried until the time is up.
QUICK = {"default.api.timeout.ms": 3_000, "request.timeout.ms": 2_000}


@pytest.fixture(scope="module")
def cluster() -> Iterator[SecuredKafka]:
    with secured_kafka() as started:
        yield started


@contextmanager
def token_endpoint(
    *, life_s: float = 3600, statuses: Iterable[int] = repeat(200), elsewhere: str = ""
) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Its address, and what was asked of it. It answers with these statuses, one after the other."""
    asked: list[dict[str, str]] = []
    left = iter(statuses)

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            asked.append({"authorization": self.headers["Authorization"], "form": form})
            self.send_response(next(left))
            if elsewhere:
                self.send_header("Location", elsewhere)
            self.end_headers()
            self.wfile.write(
                json.dumps({"access_token": unsigned_token("alice", life_s=life_s), "expires_in": life_s}).encode()
            )

        def log_message(self, *_: Any) -> None:
            """Not to the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/token", asked
        server.shutdown()
        thread.join()


def token_login(cluster: SecuredKafka, endpoint: str) -> dict[str, str]:
    jaas = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    jaas += f' clientId="alice" clientSecret="{SECRET}" scope="orders";'
    handler = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
    options = {
        "sasl.oauthbearer.token.endpoint.url": endpoint,
        "sasl.login.callback.handler.class": handler,
        "sasl.jaas.config": jaas,
    }
    return {**cluster.tls(), "sasl.mechanism": "OAUTHBEARER", **options}


def goes_through(cluster: SecuredKafka, properties: dict[str, Any], topic: str) -> None:
    """A transaction that does not fit into one record of TLS, written and read."""
    topics.create(cluster.kafka.bootstrap_servers, topic, 2)
    rows = [f"{topic} {number} {'x' * 3_000}" for number in range(1_000)]
    with semel.Cluster({**properties, "max.request.size": 8_000_000}) as ours:
        with ours.producer(topic) as producer, producer.transaction() as txn:
            txn.send(topic, pa.table({"value": rows}))
        assert sorted(values(cluster.kafka.bootstrap_servers, topic)) == sorted(rows)
        read = pa.concat_arrays([batch.column("value") for batch in ours.read(topic)])
        assert sorted(value.as_py().decode() for value in read) == sorted(rows)


def refusal(properties: dict[str, Any]) -> SemelError:
    """The error of whoever is not let in. No secret is in it."""
    with semel.Cluster(properties) as ours, pytest.raises(SemelError) as refused:
        ours.read("any")
    for secret in (PASSWORD.strip(), "wrong-password", SECRET):
        assert secret not in str(refused.value)
    return refused.value


# ---- who comes in


@pytest.mark.parametrize(
    ("mechanism", "protocol"),
    [("PLAIN", "SASL_SSL"), ("PLAIN", "SASL_PLAINTEXT"), ("SCRAM-SHA-256", "SASL_SSL"), ("SCRAM-SHA-512", "SASL_SSL")],
)
def test_with_a_password(cluster: SecuredKafka, mechanism: str, protocol: str) -> None:
    goes_through(cluster, cluster.login(mechanism, "alice", PASSWORD, protocol), f"password-{mechanism}-{protocol}")


def test_with_user_and_password_as_librdkafka_has_them(cluster: SecuredKafka) -> None:
    login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": PASSWORD}
    goes_through(cluster, {**cluster.tls(), **login}, "user-and-password")


def test_with_a_token_of_an_endpoint(cluster: SecuredKafka) -> None:
    with token_endpoint() as (address, asked):
        goes_through(cluster, token_login(cluster, address), "token-of-an-endpoint")
    assert len(asked) == 1, "one token serves all connections"
    assert asked[0]["form"] == "grant_type=client_credentials&scope=orders"


@pytest.mark.parametrize(
    "provider", ["tests.support.secured:token_of_alice", lambda: unsigned_token("alice")], ids=["by name", "a function"]
)
def test_with_a_token_of_a_function(cluster: SecuredKafka, provider: Any, request: pytest.FixtureRequest) -> None:
    login = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.provider": provider}
    goes_through(cluster, {**cluster.tls(), **login}, f"token-{request.node.callspec.id.replace(' ', '-')}")


@pytest.mark.parametrize("user", ["a,b", "a=b", "a=2Cb"])
def test_a_name_with_what_scram_has_a_meaning_for(cluster: SecuredKafka, user: str) -> None:
    cluster.add_scram_user(user, f"of {user}")
    cluster.allow(user, EVERYTHING)
    goes_through(
        cluster, cluster.login("SCRAM-SHA-256", user, f"of {user}"), f"scram-name-{len(user)}-{user.count(',')}"
    )


@pytest.mark.parametrize("given", ["location", "inline"])
@pytest.mark.parametrize("password", [None, "of the key"])
def test_with_a_certificate(cluster: SecuredKafka, given: str, password: str | None) -> None:
    pem = cluster.secured.certificate("alice", password=password)
    properties = cluster.tls("SSL") | ({"ssl.key.password": password} if password else {})
    if given == "location":
        properties["ssl.keystore.location"] = str(pem)
    else:
        key, _, chain = pem.read_text().partition("-----BEGIN CERTIFICATE")
        authority = cluster.secured.truststore.read_text()
        properties |= {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": f"-----BEGIN CERTIFICATE{chain}"}
        properties |= {"ssl.truststore.certificates": authority}
        del properties["ssl.truststore.location"]
    goes_through(cluster, properties, f"certificate-{given}-{bool(password)}")


def test_a_certificate_that_is_renewed_is_read_anew(cluster: SecuredKafka, tmp_path: Path) -> None:
    """By the next connection: certificates of days are renewed under queries of months."""
    pem = Secured.make(tmp_path, {}).certificate("alice")
    properties = {**cluster.tls("SSL"), "ssl.keystore.location": str(pem)}
    assert refusal(properties).tag == "TLS"
    pem.write_bytes(cluster.secured.certificate("alice").read_bytes())
    goes_through(cluster, properties, "certificate-renewed")
    pem.write_bytes(pem.read_bytes()[:100])
    goes_through(cluster, properties, "certificate-half-written")


def test_with_a_file_of_properties_as_kafkas_programs_take_it(cluster: SecuredKafka, tmp_path: Path) -> None:
    login = cluster.login("SCRAM-SHA-256", "alice", PASSWORD)
    goes_through(cluster, login, "seen-by-a-program")
    servers, jaas = login.pop("bootstrap.servers"), login.pop("sasl.jaas.config").replace("\\", "\\\\")
    lines = [f"{name} = {value}" for name, value in login.items()]
    lines += ["# the login", "sasl.jaas.config=" + jaas.replace(" required ", " required \\\n    ")]
    file = tmp_path / "client.properties"
    file.write_text("\n".join(lines))
    done = CliRunner().invoke(
        cli.app, ["txn", "list", "--all", "--bootstrap-server", servers, "--command-config", str(file)]
    )
    assert done.exit_code == 0, done
    assert "seen-by-a-program" in done.output


# ---- for how long


def lasting(cluster: SecuredKafka, topic: str) -> bool:
    """Whether one connection lives for longer than a login holds."""
    topics.create(cluster.kafka.bootstrap_servers, topic)
    with semel.Cluster(cluster.login("SCRAM-SHA-256", "alice", PASSWORD)) as ours:
        client = ours._client
        first = client.connect(ANY)
        over = threading.Event()
        threading.Timer(2.5 * LOGIN_MS / 1000, over.set).start()
        while not over.wait(0.02):
            client.refresh({topic})
        return client.connect(ANY) is first


def test_a_login_is_renewed_on_the_connection_that_it_is_for(cluster: SecuredKafka) -> None:
    assert lasting(cluster, "renewed")


def test_without_renewal_the_broker_ends_the_connection(cluster: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the broker means it. What was asked goes on by another connection."""
    monkeypatch.setattr(wire, "_KNOWN", 1e6)
    assert not lasting(cluster, "not-renewed")


def test_a_token_is_fetched_again_before_it_ends(cluster: SecuredKafka) -> None:
    topics.create(cluster.kafka.bootstrap_servers, "tokens")
    with token_endpoint(life_s=2) as (address, asked), semel.Cluster(token_login(cluster, address)) as ours:
        client = ours._client

        def asked_again() -> bool:
            client.refresh({"tokens"})
            return len(asked) >= 3

        wait_for(asked_again, "a third token")


def test_a_token_that_still_holds_is_used_while_no_other_can_be_had(cluster: SecuredKafka) -> None:
    topics.create(cluster.kafka.bootstrap_servers, "outage")
    with (
        token_endpoint(life_s=60, statuses=chain([200], repeat(503))) as (address, asked),
        semel.Cluster(token_login(cluster, address)) as ours,
    ):
        ours._client.refresh({"outage"})
        (kept,) = (kept for sasl, kept in oauth._kept.items() if sasl.token_endpoint == address)
        kept.renew_at = 0
        with semel.Cluster(token_login(cluster, address)) as others:
            others._client.refresh({"outage"})
        assert len(asked) > 1, "another was asked for"


def test_a_token_that_was_kept_and_is_not_taken_any_more_makes_room_for_another(cluster: SecuredKafka) -> None:
    topics.create(cluster.kafka.bootstrap_servers, "revoked")
    with token_endpoint() as (address, asked):
        for _ in range(2):
            with semel.Cluster(token_login(cluster, address)) as ours:
                ours._client.refresh({"revoked"})
            (kept,) = (kept for sasl, kept in oauth._kept.items() if sasl.token_endpoint == address)
            kept.text = "revoked by its issuer"
    assert len(asked) == 2


def test_a_login_is_renewed_while_requests_are_pipelined(
    cluster: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A participant that writes for longer than a login holds always has requests under way."""
    topics.create(cluster.kafka.bootstrap_servers, "pipelined")
    logins: list[bool] = []

    def counted(*given: Any, again: bool) -> float | None:
        logins.append(again)
        return security.authenticate(*given, again=again)

    monkeypatch.setattr(wire, "authenticate", counted)
    rows = pa.table({"value": ["x" * 15_000] * 1_000})
    properties = {**cluster.login("SCRAM-SHA-256", "alice", PASSWORD), "max.request.size": 16_384}
    with semel.Cluster(properties) as ours, ours.producer("pipelined") as producer, producer.transaction() as txn:
        txn.send("pipelined", rows.slice(0, 1))
        opened = logins.count(False)
        began = time.monotonic()
        while time.monotonic() - began < 1.2 * LOGIN_MS / 1000:
            txn.send("pipelined", pa.concat_tables([rows] * 4))
        assert logins.count(False) == opened, "no connection was lost"
        assert logins.count(True) >= 1


def test_nothing_is_sent_in_the_clear_by_a_connection_that_is_closed_under_a_writer(
    cluster: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    encrypted: list[bool] = []
    plain = socket.socket.shutdown

    def watched(self: socket.socket, how: int) -> None:
        encrypted.append(self._sslobj is not None)  # type: ignore[attr-defined]
        plain(self, how)

    with semel.Cluster(cluster.login("PLAIN", "alice", PASSWORD)) as ours:
        ours._client.connect(ANY)
        monkeypatch.setattr(socket.socket, "shutdown", watched)
    assert encrypted == [True]


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


# ---- secrets


def test_what_travels_and_what_is_said_holds_no_secret(cluster: SecuredKafka, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    topics.create(cluster.kafka.bootstrap_servers, "quiet")
    key = cluster.secured.certificate("alice").read_text()
    properties = cluster.login("SCRAM-SHA-256", "alice", PASSWORD) | {
        "ssl.keystore.key": key,
        "ssl.keystore.certificate.chain": key,
    }
    with semel.Cluster(properties) as ours, ours.producer("quiet") as producer, producer.transaction() as txn:
        (ticket,) = txn.tickets([[("quiet", 0)]])
        with ours.participant(ticket) as participant:
            participant.send("quiet", pa.table({"value": ["one"]}))
        txn.accept([participant.receipt])
        said = [
            pickle.dumps(ticket),
            pickle.dumps(participant.receipt),
            repr((ticket, ours._client.config, ours)).encode(),
            caplog.text.encode(),
        ]
    stored = [value.encode() for value in values(cluster.kafka.bootstrap_servers, "semel-progress")]
    assert stored
    secrets = [PASSWORD.strip(), json.dumps(PASSWORD.strip())[1:-1], repr(PASSWORD.strip())[1:-1], key.splitlines()[1]]
    for text in (*said, *stored):
        for secret in secrets:
            assert secret.encode() not in text
    assert PASSWORD.strip().encode() in pickle.dumps(ours._client.config), "the control: a search that would find it"
