"""Positions survive their record, and another cluster or policy is not gone on with."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from semel.errors import ConfigError, DataLoss
from semel.mirror.adoption.plan import Plan, PlannedPartition
from semel.mirror.policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from semel.mirror.positions import OffsetAndEpoch, Positions, flow_id
from semel.mirror.stops import WHOLE_TOPIC, Stop
from semel.read.ranges import id_text
from semel.transaction.progress.record import KafkaSource, OpaqueSource, Progress, TopicEnd
from semel.wire.metadata import Topic

NAMES = DefaultReplicationPolicy("A", "B")


def some() -> Positions:
    begun = Positions.begin("cluster", NAMES).begun(
        {("orders", 0): OffsetAndEpoch(5), ("orders", 1): OffsetAndEpoch(0), ("eu", 0): OffsetAndEpoch(7)},
        {"orders": "id-1", "eu": "id-2"},
        {"orders": ("A.orders", "id-3"), "eu": ("A.eu", "id-4")},
    )
    return begun.moved({("orders", 1): OffsetAndEpoch(12, 4)})


def read(positions: Positions) -> Positions:
    return Positions.of(Progress.decode(positions.progress().encode(), "here"), flow_id("A", "B"))


def test_they_survive_their_record() -> None:
    assert read(some()) == some()
    assert some().round == 1
    assert some().at == {
        ("orders", 0): OffsetAndEpoch(5),
        ("orders", 1): OffsetAndEpoch(12, 4),
        ("eu", 0): OffsetAndEpoch(7),
    }
    assert read(Positions.begin("cluster", NAMES)) == Positions.begin("cluster", NAMES)


def test_what_is_stopped_survives_too() -> None:
    stops = {("orders", number): Stop("OFFSETS_GONE", "gone") for number in range(150)}
    stopped = replace(
        some(),
        stopped={("eu", WHOLE_TOPIC): Stop("TARGET_GONE", "not there"), **stops},
        stopped_groups={"billing": Stop("GROUP_AUTHORIZATION_FAILED", "denied")},
        left=frozenset({"eu"}),
    )
    found = read(stopped)
    assert (found.stopped.keys(), found.stopped_groups, found.left) == (
        stopped.stopped.keys(),
        stopped.stopped_groups,
        stopped.left,
    )
    assert found.stopped["eu", WHOLE_TOPIC].message == "not there"
    # a record has a bounded size: the last ones have their tag alone
    assert {stop.tag for stop in found.stopped.values()} == {"TARGET_GONE", "OFFSETS_GONE"}
    assert sum(bool(stop.message) for stop in found.stopped.values()) == 100
    gone = stopped.without("eu")
    assert (gone.left, gone.stopped.keys()) == (frozenset(), stops.keys())
    assert "eu" not in gone.ids
    assert stopped.moved({}).stopped == stopped.stopped


def test_another_cluster_or_policy() -> None:
    some().check_same_flow("cluster", NAMES)
    with pytest.raises(
        ConfigError, match=r"OTHER_CLUSTER. A was cluster cluster until now, and A.bootstrap.servers leads to other"
    ):
        some().check_same_flow("other", NAMES)
    with pytest.raises(
        ConfigError, match=r"OTHER_POLICY. mirror.A.B has copied with default. until now, and the file says default_"
    ):
        some().check_same_flow("cluster", DefaultReplicationPolicy("A", "B", separator="_"))
    with pytest.raises(ConfigError, match=r"the file says identity"):
        some().check_same_flow("cluster", IdentityReplicationPolicy("A", "B"))


@pytest.mark.parametrize(
    "progress",
    [
        Progress(),
        Progress(batch=1, sources=(OpaqueSource("x"),), extra={"mirror": {}}),
        Progress(batch=1, sources=(KafkaSource("c", {"t": TopicEnd("id", {0: 1})}),)),
        Progress(
            batch=1,
            sources=(KafkaSource("c", {"t": TopicEnd("id", {0: 1})}),),
            extra={"mirror": {"policy": "x", "targets": {}, "epochs": {}}},
        ),
        Progress(sources=(KafkaSource("c", {}),), extra={"mirror": {"policy": "x", "targets": {}, "epochs": {}}}),
    ],
)
def test_what_is_no_mirrors_progress(progress: Progress) -> None:
    with pytest.raises(DataLoss, match=r"PROGRESS_DAMAGED. the progress of mirror.A.B is not that of a mirror"):
        Positions.of(progress, flow_id("A", "B"))


def test_positions_of_a_topic_that_was_made_again_or_is_stopped_are_not_there_yet() -> None:
    """Offsets that are set to where the flow stands let it go on: another id, and no stop, are written then."""
    old, new = UUID(int=1), UUID(int=2)

    def plan(id: UUID) -> Plan:
        planned = PlannedPartition(("orders", 0), ("A.orders", 0), position=5)
        return Plan("A->B", "your request", {"orders": Topic("orders", id, {})}, (planned,))

    there = Positions.begin("cluster", NAMES).begun(
        {("orders", 0): OffsetAndEpoch(5), ("eu", 0): OffsetAndEpoch(7)},
        {"orders": id_text(old), "eu": "id-2"},
        {"orders": ("A.orders", "id-3"), "eu": ("A.eu", "id-4")},
    )
    assert plan(old).is_done(there)
    assert not plan(new).is_done(there)
    stopped = {("orders", 0): Stop("ROWS_GONE", "They are gone.")}
    assert not plan(old).is_done(replace(there, stopped=stopped))
    assert plan(old).is_done(replace(there, stopped={("eu", 0): stopped["orders", 0]}))
