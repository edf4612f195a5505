"""Offset syncs as MirrorMaker 2 has them: where the file says, each the place of a record that was copied."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.sandbox import Sandbox
from tests.mirror.support.harness import alias_of, copy_once, mm2, partitions, produce, records, unique
from tests.support import topics


def syncs(sandbox: Sandbox, name: str, topic: str) -> list[tuple[int, int, int]]:
    """Partition, source offset and target offset of each sync of a topic."""
    found = []
    for key, value, _, _ in records(sandbox, name)[0]:
        assert key is not None
        assert value is not None
        if key[2:-4].decode() == topic:
            found.append((*struct.unpack(">i", key[-4:]), *struct.unpack(">qq", value)))
    return found


@pytest.mark.parametrize("location", ["source", "target"])
def test_syncs_are_written_where_the_file_says(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path, location: str
) -> None:
    topic = topics.create(a.bootstrap_servers, unique("synced"), 1)
    keys = {"offset-syncs.topic.location": location, "offset.lag.max": "9"}
    file = mm2(tmp_path, a, b, topic, **keys)
    alias = alias_of(file)
    side, other = (a, "B") if location == "source" else (b, alias)
    produce(a, topic, [{"value": f"{i}"} for i in range(25)])
    copy_once(spark, file)
    name = f"mm2-offset-syncs.{other}.internal"
    assert syncs(side, name, topic) == [(0, 20, 20)]
    produce(a, topic, [{"value": "one more"}])
    copy_once(spark, file)  # a new start has a sync of its first record
    assert syncs(side, name, topic)[-1] == (0, 25, 26)
    assert records(b, f"{alias}.{topic}") == records(a, topic)


def test_no_syncs_where_the_file_says_so(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    topic = topics.create(a.bootstrap_servers, unique("unsynced"), 1)
    file = mm2(tmp_path, a, b, topic, **{"emit.offset-syncs.enabled": "false", "offset-syncs.topic.location": "target"})
    produce(a, topic, [{"value": "one"}])
    copy_once(spark, file)
    assert partitions(b, f"mm2-offset-syncs.{alias_of(file)}.internal") == []
