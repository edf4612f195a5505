"""TLS and SASL on a real broker: who comes in, and how a login is renewed."""

from __future__ import annotations

import json
import logging
import pickle
import socket
import threading
import time
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka.protocol.metadata import ApiVersionsRequest
from typer.testing import CliRunner

import semel
from semel import cli
from semel.config import ClientConfig
from semel.sandbox import Secured
from semel.wire import connection as wire
from semel.wire import oauth, security
from semel.wire.target import ANY
from tests.spark.support.topics_and_drivers import values
from tests.support import topics
from tests.support.java_stores import KEY_PASSWORD, STORE_PASSWORD, Kind, keystore, truststore
from tests.support.secured import EVERYTHING, LOGIN_MS, PASSWORD, SecuredKafka, secured_kafka, unsigned_token
from tests.support.waiting import wait_for
from tests.wire.support.logins import goes_through, refusal, token_endpoint, token_login


@pytest.fixture(scope="module")
def cluster() -> Iterator[SecuredKafka]:
    with secured_kafka() as started:
        yield started


# ---- who comes in


def test_a_session_with_a_token(cluster: SecuredKafka) -> None:
    """Its member of the group logs in as everything else does, also where the token has to be renewed."""
    source, target = "token-session-in", "token-session-out"
    for topic in (source, target):
        topics.create(cluster.kafka.bootstrap_servers, topic, 2)
    login = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.provider": "tests.support.secured:token_of_alice"}
    rows = [f"row {number}" for number in range(100)]
    with semel.Cluster({**cluster.tls(), **login}) as ours:
        with ours.producer("token-session") as producer, producer.transaction() as txn:
            txn.send(source, pa.table({"value": rows}))
        with ours.session("token-copy", group="token-copy", topics=[source]) as session:
            left = len(rows)
            while left:
                if (batch := session.poll(1)) is not None:
                    session.send(target, batch.select(["value"]))
                    assert session.commit()
                    left -= batch.num_rows
    assert sorted(values(cluster.kafka.bootstrap_servers, target)) == sorted(rows)


def test_the_connection_on_which_an_answer_comes_is_seen_through_tls(cluster: SecuredKafka) -> None:
    login = cluster.login("SCRAM-SHA-512", "alice", PASSWORD, "SASL_SSL")
    host, port = login["bootstrap.servers"].split(":")
    one, two = (wire.Connection(host, int(port), ClientConfig.parse(login)) for _ in range(2))
    try:
        assert wire.readable([one, two], 0) == []
        for asked in (two, one):
            asked.send(ApiVersionsRequest(), 0)
            assert wire.readable([one, two], 60_000) == [asked]
            asked.receive()
            assert wire.readable([one, two], 0) == []
    finally:
        one.close()
        two.close()
    assert wire.readable([one, two], 0) == [one, two]


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


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_with_javas_stores(cluster: SecuredKafka, tmp_path: Path, kind: Kind) -> None:
    properties = {
        **cluster.tls("SSL"),
        "ssl.truststore.location": str(truststore(tmp_path, kind, cluster.secured.truststore)),
        "ssl.truststore.password": STORE_PASSWORD,
        "ssl.truststore.type": kind,
        "ssl.keystore.location": str(keystore(tmp_path, kind, cluster.secured.certificate("alice"))),
        "ssl.keystore.password": STORE_PASSWORD,
        **({"ssl.key.password": KEY_PASSWORD} if kind == "JKS" else {}),
    }
    goes_through(cluster, properties, f"store-{kind}")


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
    monkeypatch.setattr(wire, "_KNOWN", 0.3)  # a broker that is slow now does not end the connection before
    rows = pa.table({"value": ["x" * 15_000] * 1_000})
    properties = {**cluster.login("SCRAM-SHA-256", "alice", PASSWORD), "max.request.size": 16_384}
    with semel.Cluster(properties) as ours, ours.producer("pipelined") as producer, producer.transaction() as txn:
        began = time.monotonic()
        while not any(logins) and time.monotonic() - began < 60:
            txn.send("pipelined", pa.concat_tables([rows] * 4))
    assert any(logins), "renewed on a connection that was never without a request"


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
