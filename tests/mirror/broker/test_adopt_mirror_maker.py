"""A flow that a real MirrorMaker 2 has copied is adopted: no record is copied again, and none is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.errors import ConfigError
from semel.sandbox import Sandbox
from tests.mirror.support.adopting import adopt, file_of_both, wait_until_gone
from tests.mirror.support.groups import consume, translate
from tests.mirror.support.harness import alias_of, copy_once, produce, records, unique
from tests.mirror.support.mirror_maker import mirror_maker
from tests.support import topics
from tests.support.waiting import wait_for

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
        produce(a, topic, rows(200, 500))
        wait_for(lambda: count(b, target) == 500, copier.said)
        (copier.kill if kills else copier.stop)()
        produce(a, topic, rows(500, 600))
        read = consume(a, group, topic, 450)
        wait_until_gone(b, file, copier)
    shown = adopt(file, "mm2", "--dry-run")
    trails = kills and not exactly_once
    beyond = [int(line.split()[4]) for line in shown.splitlines()[1:4]]
    assert sum(beyond) == (300 if trails else 0)
    with pytest.raises(ConfigError) as unknown:
        copy_once(spark, file)
    assert unknown.value.tag == "TARGET_HAS_ROWS"
    assert f"start {alias_of(file)}->B now" in adopt(file, "mm2", "--replace")
    copy_once(spark, file)
    assert records(b, target) == records(a, topic)
    translate(file, alias_of(file), "B", "--group", group, "--apply")
    assert sorted([*read, *consume(b, group, target, 150)]) == sorted(f"row {i}".encode() for i in range(600))
