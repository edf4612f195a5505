"""What a client says when nobody answers."""

from __future__ import annotations

import pytest

from semel.config import ClientConfig
from semel.errors import Retriable
from semel.wire.client import Client


def test_a_question_that_nobody_answers_has_changed_nothing(caplog: pytest.LogCaptureFixture) -> None:
    patience = {"default.api.timeout.ms": 300, "request.timeout.ms": 100}
    config = ClientConfig.parse({"bootstrap.servers": "127.0.0.1:1", **patience})
    with Client(config) as client, pytest.raises(Retriable, match=r"127\.0\.0\.1:1 could not be reached.*Nothing was read or written by it") as said:
        client.topics(["orders"])
    assert said.value.tag == "TIMEOUT"
    (warned,) = caplog.messages
    assert warned.startswith("no broker could be reached: 127.0.0.1:1 could not be reached"), "once, and before the time is over"
    assert warned.endswith("It is tried again.")
