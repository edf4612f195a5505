"""A broker that takes two-phase commit, a cluster and a topic on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import semel
from semel.sandbox import Sandbox
from semel.sandbox.settings import TWO_PHASE_COMMIT
from tests.support.topics import create
from tests.two_phase.support.prepared import numbers


@pytest.fixture(scope="module")
def brokers() -> Iterator[Sandbox]:
    soon = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with Sandbox.start(settings={**TWO_PHASE_COMMIT, **soon}) as sandbox:
        yield sandbox


@pytest.fixture
def cluster(brokers: Sandbox) -> Iterator[semel.Cluster]:
    with semel.Cluster({"bootstrap.servers": brokers.bootstrap_servers}) as opened:
        yield opened


@pytest.fixture
def topic(brokers: Sandbox) -> str:
    return create(brokers.bootstrap_servers, f"two-phase-{next(numbers)}", 2)
