"""Two clusters: ``a`` is the source, of these tests alone; ``b``, the target, is the broker that other tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.sandbox import Sandbox

_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="session")
def a() -> Iterator[Sandbox]:
    """Its cleaner is quick, so that compaction can be waited for."""
    with Sandbox.start(settings={"log.cleaner.backoff.ms": "200"}) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def guarded() -> Iterator[Sandbox]:
    """A cluster with an authorizer, at which nobody needs a right."""
    with Sandbox.start(settings=_AUTHORIZER) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def guarded_target() -> Iterator[Sandbox]:
    with Sandbox.start(settings=_AUTHORIZER) as sandbox:
        yield sandbox


@pytest.fixture
def b(kafka: Sandbox) -> Sandbox:
    return kafka
