"""What several crash tests start, once a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.sandbox import Sandbox
from tests.support.forked_owners import Nursery


@pytest.fixture(scope="module")
def broker() -> Iterator[Sandbox]:
    """One that soon gives up members that are silent, and transactions that have timed out."""
    settings = {
        "group.min.session.timeout.ms": "1000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    }
    with Sandbox.start(settings=settings) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Processes that are forked, and end with the file."""
    with Nursery() as running:
        yield running
