"""What most tests against a broker begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.wire.client import Client
from tests.support.registry import Registry
from tests.support.registry import registry as running_registry


@pytest.fixture
def servers(kafka: Sandbox) -> str:
    return kafka.bootstrap_servers


@pytest.fixture
def client(servers: str) -> Iterator[Client]:
    with Client(ClientConfig.parse({"bootstrap.servers": servers})) as opened:
        yield opened


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Start a registry for the whole session. Tests share it: each uses its own subjects."""
    with running_registry(tmp_path_factory.mktemp("registry")) as made:
        yield made
