"""A flow that a real MirrorMaker 2 has copied is adopted: no record is copied again, and none is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.mirror.formats import Checkpoint
from semel.mirror.positions import last_known
from semel.sandbox import Sandbox
from semel.serdes.connect_offsets import encode_key, encode_value
from semel.wire.client import Client
from tests.mirror.support.adopting import adopt, file_of_both, wait_until_gone
from tests.mirror.support.groups import consume, offsets, translate
from tests.mirror.support.harness import alias_of, copy_once, produce, records, topics_of, unique
from tests.mirror.support.mirror_maker import mirror_maker
from tests.support import topics
from tests.support.waiting import wait_for

ROWS = 20_000
CASES = [
    pytest.param(False, True, id="at least once, killed"),
    pytest.param(True, True, id="exactly once, killed", marks=pytest.mark.exhaustive),
    pytest.param(False, False, id="at least once, stopped", marks=pytest.mark.exhaustive),
    pytest.param(True, False, id="exactly once, stopped", marks=pytest.mark.exhaustive),
]


def count(sandbox: Sandbox, topic: str) -> int:
    return sum(map(len, records(sandbox, topic).values()))


def rows(first: int, last: int) -> list[dict[str, str]]:
    return [{"key": f"k{i % 7}", "value": f"row {i}"} for i in range(first, last)]


@pytest.mark.parametrize(("exactly_once", "kills"), CASES)
def test_a_flow_of_mirror_maker_is_adopted(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path, exactly_once: bool, kills: bool
) -> None:
    topic = topics.create(a.bootstrap_servers, unique("adopted"), 3)
    group = unique("group")
    file = file_of_both(tmp_path, a, b, topic, exactly_once=exactly_once, groups=group)
    target = f"{alias_of(file)}.{topic}"
    produce(a, topic, rows(0, 200))
    with mirror_maker(file) as copier:
        wait_for(lambda: count(b, target) == 200, copier.said)
        with pytest.raises(ConfigError) as refused:
            adopt(file, "mm2")
        assert refused.value.tag == "GROUP_IN_USE"
        copier.stop()
    with mirror_maker(file) as copier:
        produce(a, topic, rows(200, ROWS))
        wait_for(lambda: count(b, target) > 200, copier.said)
        (copier.kill if kills else copier.stop)()  # at work, or just done
        produce(a, topic, rows(ROWS, ROWS + 100))
        read = consume(a, group, topic, 450)
        wait_until_gone(b, file, copier)
    if not exactly_once:  # else what is open may hold it up, and is only aborted by the adoption itself
        before, there = topics_of(b), count(b, target)
        shown = adopt(file, "mm2", "--dry-run")
        beyond = [int(line.split()[4]) for line in shown.splitlines()[1:4]]
        assert sum(beyond) == (there - 200 if kills else 0)
        assert topics_of(b) == before
    with pytest.raises(ConfigError) as unknown:
        copy_once(spark, file)
    assert unknown.value.tag == "TARGET_HAS_ROWS"
    assert f"start {alias_of(file)}->B now" in adopt(file, "mm2", "--replace")
    copy_once(spark, file)
    assert records(b, target) == records(a, topic)
    translate(file, alias_of(file), "B", "--group", group, "--apply")
    rest = consume(b, group, target, ROWS + 100 - 450)
    assert sorted([*read, *rest]) == sorted(f"row {i}".encode() for i in range(ROWS + 100))


def hand_back(b: Sandbox, file: Path) -> None:
    """Give MirrorMaker 2 the positions of the flow, in its own topic."""
    alias = alias_of(file)
    with Client(ClientConfig.parse({"bootstrap.servers": b.bootstrap_servers})) as client:
        positions = last_known(client, f"mirror.{alias}.B")
    assert positions is not None
    offsets = [
        {
            "key": encode_key("MirrorSourceConnector", {"cluster": alias, "partition": index, "topic": topic}),
            "value": encode_value("MirrorSourceConnector", {"offset": at.offset - 1}),
        }
        for (topic, index), at in positions.at.items()
    ]
    produce(b, f"mm2-offsets.{alias}.internal", offsets, partitioner="murmur2_random")


@pytest.mark.exhaustive
def test_a_flow_goes_to_semel_and_back(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    """Records and groups; MirrorMaker 2 translates by the offset syncs that semel has written."""
    topic, group = topics.create(a.bootstrap_servers, unique("drill"), 2), unique("group")
    often = {"emit__checkpoints__interval__seconds": "1", "refresh__groups__interval__seconds": "1"}
    file = file_of_both(tmp_path, a, b, topic, exactly_once=True, groups=group, **often)
    alias = alias_of(file)
    target = f"{alias}.{topic}"
    produce(a, topic, rows(0, 200))
    with mirror_maker(file) as copier:
        wait_for(lambda: count(b, target) == 200, copier.said)
        copier.kill()
        wait_until_gone(b, file, copier)
    adopt(file, "mm2")
    without = tmp_path / f"{alias}-semel.properties"
    without.write_text(f"{file.read_text()}emit.checkpoints.enabled = false\n")
    produce(a, topic, rows(200, 900))
    copy_once(spark, without)
    assert records(b, target) == records(a, topic)
    # a group goes to B and comes back
    first = consume(a, group, topic, 300)
    translate(file, alias, "B", "--group", group, "--apply")
    second = consume(b, group, target, 300)
    translate(file, "B", alias, "--group", group, "--apply")
    hand_back(b, file)
    at = {key[1]: offset for key, offset in offsets(a, group).items()}
    exact = {row["partition"]: row["offset"] for row in translate(file, alias, "B", "--group", group, "--json")}
    with mirror_maker(file) as copier:
        produce(a, topic, rows(900, 1000))
        wait_for(lambda: count(b, target) >= 1000, copier.said)
        wait_for(lambda: checkpoints(b, alias, group).keys() == at.keys(), copier.said)
        found = checkpoints(b, alias, group)
        copier.stop()
    assert records(b, target) == records(a, topic)
    for index, checkpoint in found.items():
        assert checkpoint.upstream_offset == at[index]
        assert 0 < checkpoint.offset <= exact[index] + 1  # after the marker of the last round, there is the same record
    third = consume(a, group, topic, 400)
    assert sorted([*first, *second, *third]) == sorted(f"row {i}".encode() for i in range(1000))


def checkpoints(b: Sandbox, alias: str, group: str) -> dict[int, Checkpoint]:
    """The newest checkpoint of each partition of a group."""
    newest = records(b, f"{alias}.checkpoints.internal")[0]
    found = [Checkpoint.parse(key or b"", value or b"") for key, value, _, _ in newest]
    return {one.partition: one for one in found if one.group == group}
