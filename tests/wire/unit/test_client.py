"""What a client says when nobody answers."""

from __future__ import annotations

import socket
import threading

import pytest

from semel.config import ClientConfig
from semel.errors import Retriable
from semel.wire.client import Client


def test_a_question_that_nobody_answers_has_changed_nothing(caplog: pytest.LogCaptureFixture) -> None:
    patience = {"default.api.timeout.ms": 300, "request.timeout.ms": 100}
    config = ClientConfig.parse({"bootstrap.servers": "127.0.0.1:1", **patience})
    with (
        Client(config) as client,
        pytest.raises(
            Retriable, match=r"127\.0\.0\.1:1 could not be reached.*Nothing was read or written by it"
        ) as said,
    ):
        client.topics(["orders"])
    assert said.value.tag == "TIMEOUT"
    (warned,) = caplog.messages
    told = "no broker could be reached, so this request was not sent: 127.0.0.1:1 could not be reached"
    assert warned.startswith(told), "once, and before the time is over"
    assert warned.endswith("It is tried again, for up to 0.3 s in all.")


def test_a_last_try_that_learns_nothing_does_not_hide_what_was_seen_before_it() -> None:
    """The listener turns the first connection away and lets the next ones wait, for longer than there is time."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def turn_away() -> None:
            met, _ = listener.accept()
            met.recv(100)
            met.close()

        thread = threading.Thread(target=turn_away)
        thread.start()
        patience = {"default.api.timeout.ms": 500, "request.timeout.ms": 1_000}
        config = ClientConfig.parse({"bootstrap.servers": "{}:{}".format(*listener.getsockname()), **patience})
        with Client(config) as client, pytest.raises(Retriable, match=r"another security\.protocol\? Nothing was read"):
            client.topics(["orders"])
        thread.join()
