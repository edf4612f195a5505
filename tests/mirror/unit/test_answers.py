"""Answers of MirrorMaker 2's own classes (``make oracle-mirror``), and the same questions asked here."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semel.mirror.background.acls import target_acls
from semel.mirror.background.offset_syncs import SyncState, due_sync
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.config.properties import read_properties
from semel.mirror.formats import Heartbeat, OffsetSync
from semel.mirror.offsets.segments import Runs
from semel.mirror.policy import POLICIES
from semel.wire.api.acls import ALL_TOPICS, Acl
from tests.mirror.oracle.__main__ import END, RECORDS, ROUND
from tests.mirror.unit.config.test_properties import PLAIN

ANSWERS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "oracle" / "answers.json").read_text())
#: Kafka's numbers.
OPERATIONS = {"ALL": 2, "READ": 3, "WRITE": 4, "CREATE": 5, "DELETE": 6, "ALTER": 7, "DESCRIBE": 8}
OPERATIONS |= {"DESCRIBE_CONFIGS": 10, "ALTER_CONFIGS": 11}
PERMISSIONS = {"DENY": 2, "ALLOW": 3}


@pytest.fixture
def flow(tmp_path: Path) -> FlowConfig:
    path = tmp_path / "mm2.properties"
    path.write_text(re.sub(r"A->B\.topics.*", "A->B.topics = orders", PLAIN))
    return read_properties(path).flows[0]


@pytest.mark.parametrize(("source", "target", "timestamp", "key", "value"), ANSWERS["heartbeats"])
def test_heartbeats_byte_by_byte(source: str, target: str, timestamp: int, key: str, value: str) -> None:
    made = Heartbeat(source, target, timestamp)
    assert (made.key.hex(), made.value.hex()) == (key, value)


@pytest.mark.parametrize(("topic", "partition", "upstream", "offset", "key", "value"), ANSWERS["offset_syncs"])
def test_offset_syncs_byte_by_byte(
    topic: str, partition: int, upstream: int, offset: int, key: str, value: str
) -> None:
    made = OffsetSync(topic, partition, upstream, offset)
    assert (made.key.hex(), made.value.hex()) == (key, value)


def runs_of(records: Sequence[tuple[int, int]]) -> Runs:
    source, target = (np.array(column, np.int64) for column in zip(*records, strict=True))
    return Runs(source, target, np.ones(len(source), np.int64)).joined()


@pytest.mark.parametrize(("lag", "syncs", "_"), ANSWERS["due_syncs"])
@pytest.mark.parametrize("size", [1, 2, 7, ROUND, 1000])
def test_the_last_sync_of_each_round_is_the_one_that_is_due(lag: int, syncs: str, _: str, size: int) -> None:
    due = [tuple(map(int, one.split(":"))) for one in syncs.split()]
    state: SyncState | None = None
    for first in range(0, len(RECORDS), size):
        records = RECORDS[first : first + size]
        state, found = due_sync(runs_of(records), state, lag)
        assert found == max(set(due) & set(records), default=None)


@pytest.mark.parametrize(("lag", "_", "translated"), ANSWERS["due_syncs"])
def test_mirror_maker_translates_by_them_and_never_too_late(lag: int, _: str, translated: str) -> None:
    exact = runs_of(RECORDS)
    offsets = [int(one) for one in translated.split()]
    assert len(offsets) == END
    # -1: older than the oldest sync
    assert all(found <= (exact.next_record(offset) or RECORDS[-1][1] + 1) for offset, found in enumerate(offsets))
    assert offsets[-1] >= RECORDS[-1][1] - max(lag, ROUND)


@pytest.mark.parametrize(("operation", "permission", "becomes"), ANSWERS["rights"])
def test_what_each_right_becomes(flow: FlowConfig, operation: str, permission: str, becomes: list[str] | None) -> None:
    acls = [Acl("orders", "User:ann", "10.0.0.1", OPERATIONS[operation], PERMISSIONS[permission])]
    wanted = [] if becomes is None else [(becomes[0], OPERATIONS[becomes[1]], PERMISSIONS[becomes[2]])]
    assert [(one.topic, one.operation, one.permission) for one in target_acls(flow, acls)] == wanted
    assert all((one.principal, one.host) == ("User:ann", "10.0.0.1") for one in target_acls(flow, acls))


@pytest.mark.parametrize("topic", ["payments", "A.orders", "__consumer_offsets", ALL_TOPICS])
def test_rights_on_what_is_not_mirrored_are_left(flow: FlowConfig, topic: str) -> None:
    assert target_acls(flow, [Acl(topic, "User:ann", "*", 3, 3)]) == []


@pytest.mark.parametrize("kind", ANSWERS["names"])
def test_names_of_heartbeats(kind: str) -> None:
    policy = POLICIES[f"{kind}ReplicationPolicy"]("A", "B", clusters=("A", "B", "C"))
    for name, is_heartbeats, source, remote in ANSWERS["names"][kind]:
        if kind == "Identity" and name.startswith("X."):
            continue  # no cluster of the file: it may be a user's topic, which keeps its name
        here = policy.is_heartbeats_topic(name), policy.topic_source(name), policy.format_remote_topic(name)
        assert here == (is_heartbeats, source, remote), name
