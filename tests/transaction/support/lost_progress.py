"""An owner whose progress is lost, and what it is refused with."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

import semel
import semel.steps
import semel.transaction.transaction
from semel.transaction.producer import Producer
from tests.support.raw_producer import Raw

numbers = itertools.count(1)
ROWS = pa.table({"value": ["x"]})


def cluster(raw: Raw) -> semel.Cluster:
    return semel.Cluster({"bootstrap.servers": raw.servers})


def refused(producer: Producer) -> str:
    with pytest.raises(semel.DataLoss, match=r"PROGRESS_LOST.*Nothing was written") as found:
        producer.take_over()
    return found.value.message
