"""Logins to a secured broker: tokens and their endpoint, and what a refusal says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import repeat
from typing import Any

import pyarrow as pa
import pytest

import semel
from semel.errors import SemelError
from tests.spark.support.topics_and_drivers import values
from tests.support import topics
from tests.support.secured import PASSWORD, SecuredKafka, unsigned_token

SECRET = "clientsecret-of-alice"


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
