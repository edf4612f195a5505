"""What the tests of transactions against a broker share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.sandbox import Sandbox
from tests.support.raw_producer import Raw
from tests.transaction.support.lost_progress import ROWS, cluster, numbers


@pytest.fixture
def raw(kafka: Sandbox) -> Iterator[Raw]:
    made = Raw(kafka.bootstrap_servers)
    yield made
    made.close()


@pytest.fixture
def kept(raw: Raw) -> str:
    """A progress topic of its own, with what the id has committed."""
    name = f"progress-{next(numbers)}"
    with (
        cluster(raw) as opened,
        opened.producer(raw.id, progress_topic=name) as producer,
        producer.transaction() as txn,
    ):
        txn.send(raw.topic, ROWS)
    return name
