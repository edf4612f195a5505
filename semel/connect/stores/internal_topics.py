"""The three topics that a worker keeps its own things in: made where they are missing, checked where they are there."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from semel.errors import ConfigError
from semel.records.arrays import array, joined, validity
from semel.wire.api import topics
from semel.wire.client import Client

__all__ = ["ensure_internal_topic", "record_table"]

log = logging.getLogger("semel.connect")

_REPLICATION = 3


def ensure_internal_topic(
    client: Client, setting: str, name: str, partitions: int, replication: int | None, *, single: bool = False
) -> None:
    """Have the topic that ``setting`` names. Raises :class:`ConfigError` for one that could lose records.

    ``single`` refuses a topic with more than one partition.
    """
    deadline = client.deadline()
    if name not in client.existing({name}, deadline):
        wanted = replication if replication is not None else min(_REPLICATION, len(client.brokers(deadline)))
        topics.create(
            client,
            name,
            partitions=partitions,
            replication=wanted,
            config={"cleanup.policy": "compact"},
            deadline=deadline,
        )
    found = len(client.refresh({name}, deadline).topics[name].partitions)
    if single and found > 1:
        raise ConfigError(
            f"{setting}={name} has {found} partitions, and is required to have a single partition. Nothing was read or"
            " written. Name another topic.",
            tag="INTERNAL_TOPIC",
        )
    try:
        policy = topics.topic_config(client, name, ["cleanup.policy"], deadline).get("cleanup.policy")
    except ConfigError as error:
        log.warning("the settings of topic %s are not checked: %s", name, error.message)
        return
    if policy != "compact":
        raise ConfigError(
            f"{setting}={name} has cleanup.policy={policy}, and would lose records. Nothing was read or written. Set"
            " its cleanup.policy to compact, or name another topic.",
            tag="INTERNAL_TOPIC",
        )


def record_table(keys: Sequence[bytes], values: Sequence[bytes | None], partitions: Sequence[int]) -> pa.Table:
    """Rows, by their buffers: pyarrow's own way loads pandas, and a task would start a second later."""
    texts = joined([value or b"" for value in values], pa.binary())
    present = validity(np.array([value is None for value in values]))
    columns = [
        joined(keys, pa.binary()),
        pa.Array.from_buffers(texts.type, len(texts), [present, *texts.buffers()[1:]]),
        array(np.array(partitions, np.int32), pa.int32()),
    ]
    return pa.Table.from_arrays(columns, ["key", "value", "partition"])
