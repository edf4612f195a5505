"""What most tests against a broker begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.wire.client import Client


@pytest.fixture
def servers(kafka: Sandbox) -> str:
    return kafka.bootstrap_servers


@pytest.fixture
def client(servers: str) -> Iterator[Client]:
    with Client(ClientConfig.parse({"bootstrap.servers": servers})) as opened:
        yield opened
