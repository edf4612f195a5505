"""The config topic: the bytes that Kafka's own Connect 4.3.1 wrote, and what they amount to."""

from __future__ import annotations

import pytest

from semel.connect.stores.config_format import (
    Configs,
    commit_record,
    connector_record,
    count_record,
    session_key_record,
    target_record,
    task_record,
)

#: What Kafka's own wrote for a connector that was created, paused, stopped and deleted.
CONFIG = {"connector.class": "FileStreamSource", "file": "/tmp/f", "topic": "t", "tasks.max": "1", "name": "x"}
TASK = {**CONFIG, "task.class": "org.apache.kafka.connect.file.FileStreamSourceTask"}
SEEN = [
    (
        b"session-key",
        b'{"key":"IcLYERNerOnA7BETgAnVfct6h3Chpoesm8Fowvos0hc=","algorithm":"HmacSHA256",'
        b'"creation-timestamp":1795749966451}',
    ),
    (
        b"connector-x",
        b'{"properties":{"connector.class":"FileStreamSource","file":"/tmp/f","topic":"t","tasks.max":"1","name":"x"}}',
    ),
    (
        b"task-x-0",
        b'{"properties":{"connector.class":"FileStreamSource","file":"/tmp/f","topic":"t","tasks.max":"1","name":"x",'
        b'"task.class":"org.apache.kafka.connect.file.FileStreamSourceTask"}}',
    ),
    (b"commit-x", b'{"tasks":1}'),
    (b"tasks-fencing-x", b'{"task-count":1}'),
    (b"target-state-x", b'{"state":"PAUSED","state.v2":"PAUSED"}'),
    (b"target-state-x", b'{"state":"STARTED","state.v2":"STARTED"}'),
    (b"commit-x", b'{"tasks":0}'),
    (b"target-state-x", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
    (b"connector-x", None),
    (b"target-state-x", None),
]


def test_records_are_kafkas_byte_for_byte() -> None:
    assert [
        session_key_record("IcLYERNerOnA7BETgAnVfct6h3Chpoesm8Fowvos0hc=", 1795749966451),
        connector_record("x", CONFIG),
        task_record("x", 0, TASK),
        commit_record("x", 1),
        count_record("x", 1),
        target_record("x", "PAUSED"),
        target_record("x", "STARTED"),
        commit_record("x", 0),
        target_record("x", "STOPPED"),
        connector_record("x", None),
        target_record("x", None),
    ] == SEEN


def _after(count: int) -> Configs:
    configs = Configs()
    for key, value in SEEN[:count]:
        assert configs.apply(key, value)
    return configs


def test_what_they_amount_to() -> None:
    assert _after(3).connectors == {"x": CONFIG}
    assert _after(3).tasks == {}, "tasks count from the commit record on"
    committed = _after(4)
    assert committed.tasks == {"x": [TASK]}
    assert (committed.pending, committed.generations) == ({"x"}, {"x": 1})
    stopped = _after(9)
    assert (stopped.tasks, stopped.targets, stopped.counts) == ({"x": []}, {"x": "STOPPED"}, {"x": 1})
    assert stopped.generations == {"x": 2}
    deleted = _after(len(SEEN))
    assert (deleted.connectors, deleted.targets, deleted.tasks) == ({}, {}, {})
    assert deleted.counts == {"x": 1}, "so that a connector of the same name fences the tasks of this one"


def test_a_set_of_tasks_with_gaps_is_inconsistent_until_it_is_written_again() -> None:
    configs = Configs()
    for key, value in (connector_record("a-b", {}), task_record("a-b", 0, {"n": "0"}), commit_record("a-b", 2)):
        configs.apply(key, value)
    assert (configs.inconsistent, configs.tasks) == ({"a-b"}, {})
    for number in range(3):  # more of them, as compaction leaves them
        configs.apply(*task_record("a-b", number, {"n": str(number)}))
    configs.apply(*commit_record("a-b", 2))
    assert (configs.inconsistent, configs.tasks) == (set(), {"a-b": [{"n": "0"}, {"n": "1"}]})


def test_what_another_leader_changes_is_seen_and_what_compaction_takes_is_not() -> None:
    known = _after(4)
    assert known.same_as(_after(4))
    compacted = {key: value for key, value in SEEN[:4] if key is not None}
    assert Configs().after(list(compacted.items())).same_as(known)
    deleted = Configs().after([*SEEN, connector_record("y", {}), task_record("y", 0, {})])
    assert deleted.same_as(Configs().after([connector_record("y", {})]))
    for record in (
        connector_record("x", {"tasks.max": "2"}),
        connector_record("y", {}),
        target_record("x", "PAUSED"),
        commit_record("x", 0),
        commit_record("x", 2),
        count_record("x", 1),
    ):
        assert not known.after([record]).same_as(known), record
    assert known.same_as(_after(4)), "after() changes nothing"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"\xff", b"{}"),
        (b"connector-x", b"[]"),
        (b"connector-x", b"{"),
        (b"task-x", b'{"properties":{}}'),
        (b"commit-x", b'{"tasks":"many"}'),
        (b"target-state-x", b"{}"),
        (b"something-x", b"{}"),
    ],
)
def test_what_is_none_of_it_changes_nothing(key: bytes | None, value: bytes) -> None:
    configs = Configs()
    assert not configs.apply(key, value)
    assert configs == Configs()
