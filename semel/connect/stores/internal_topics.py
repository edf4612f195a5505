"""The three topics that a worker keeps its own things in: made where they are missing, checked where they are there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from semel.read.internal_topic import COMPACTED, InternalTopic
from semel.records.arrays import array, binary, joined
from semel.wire.client import Client

__all__ = ["ensure_internal_topic", "record_table"]


def ensure_internal_topic(
    client: Client, setting: str, name: str, partitions: int, replication: int | None, *, single: bool = False
) -> None:
    """Have the topic that ``setting`` names. Raises :class:`ConfigError` for one that could lose records.

    ``single`` refuses a topic with more than one partition.
    """
    deadline = client.deadline()
    advice = "Nothing was read or written. Correct it, or name another topic."
    topic = InternalTopic(name, f"{setting}={name}", advice, COMPACTED)
    known = topic.find_or_make(client, partitions, replication, deadline)
    topic.check_partitions(known, least=1, most=1 if single else None)
    topic.check_policy(client, deadline)


def record_table(keys: Sequence[bytes], values: Sequence[bytes | None], partitions: Sequence[int]) -> pa.Table:
    """Return rows of these keys and values, each for its partition."""
    columns = [joined(keys, pa.binary()), binary(values), array(np.array(partitions, np.int32), pa.int32())]
    return pa.Table.from_arrays(columns, ["key", "value", "partition"])
