"""Markers that brokers have lost (KAFKA-20734) are written as the transaction was decided, or the owner stops and says
what is to be done.

On one cluster, a node is frozen once while many transactions end: of owners that live on, and of owners that are never
heard of again. Then each is healed by whoever comes. Objection 22 in all its forms; PROTOCOL 5.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa
import pytest

import semel
from semel.admin.txn_heal import find_open_rows, write_marker
from semel.read.raw_log import written_by
from semel.steps import OwnerStep, Step
from semel.transaction.group_offsets import offsets_partition
from semel.transaction.progress.topic import ProgressTopic
from semel.wire.api.describe_transactions import describe, open_transactions
from semel.wire.api.offsets import committed
from semel.wire.api.transactions import add_partitions, fence
from tests.support.leaderless_cluster import MAY_HEAL, Frail, Names
from tests.support.lost_markers import Died, Left, Scene, Stage, cluster, go_on, scene_of, write_as
from tests.transaction.support.last_epochs import LAST_EPOCH, use_up

PLACES = {
    "data": {"data": True},
    "progress": {"progress": True},
    "offsets": {"offsets": True},
    "all": {"data": True, "progress": True, "offsets": True},
}
ENDS = ["committed", "aborted"]


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with scene_of(prepare) as ready:
        assert_lost(ready)
        yield ready


def prepare(stage: Stage) -> dict[str, Left]:
    where, left = stage.where, {}
    for place, lost in PLACES.items():
        for end in ENDS:
            left[f"dead {place} {end}"] = stage.dead(where.names(**lost), end)
        left[f"living {place} committed"] = stage.living(where.names(**lost))
    left["living data aborted"] = stage.living(where.names(data=True), "aborted")
    for end in ENDS:
        for what in ("another partition", "another group", "after one without offsets"):
            left[f"{what}, {end}"] = stage.dead(where.names(offsets=True), end)
        left[f"nobody knows {end}"] = stage.dead(where.names(data=True, progress=True, beside=False), end)
    left["of another program"] = stage.strange(where.names(data=True), commit=True)
    left["aborted long ago"] = stage.strange(where.names(data=True), commit=False)
    for what in ("mixed", "control", "no right", "dies initialised", "dies progress_read", "dies healed"):
        left[what] = stage.dead(
            where.names(data=True, progress=what.startswith("dies"), offsets=what.startswith("dies"))
        )
    for step in (OwnerStep.DECISION_WRITTEN, OwnerStep.HEALED):
        left[f"owner dies {step.value}"] = stage.living(where.names(**PLACES["all"], beside=False), dies_at=step)
    left["living, no right"] = stage.living(where.names(data=True), may_heal=False)
    for who, begin in (("living", stage.living), ("dead", stage.dead)):
        names = where.names(data=True)
        use_up(where.kafka.bootstrap_servers, names.id, LAST_EPOCH - 2)
        left[f"{who}, worn"] = begin(names)
    return left


def assert_lost(scene: Scene) -> None:
    """Each of the dead has left open what was to be left open."""
    client = scene.frail.client
    for place, lost in PLACES.items():
        for end in ENDS:
            names = scene.left[f"dead {place} {end}"].names
            partitions = {
                "data": (names.topic, 0),
                "progress": ProgressTopic(client, names.id, "producer").partition,
                "offsets": offsets_partition(client, names.group),
            }
            wrote = written_by(client, partitions["data"], 2, client.deadline())
            assert wrote is not None
            opened = open_transactions(client, [partitions[what] for what in lost])
            for what in lost:
                assert wrote[0] in [one.producer_id for one in opened[partitions[what]]], (
                    f"{place}, {end}: the marker on {what} was not lost"
                )


def expected(end: str, names: Names, where: Frail) -> list[str]:
    values = [f"before-{index}" for index in sorted(where.client.topics({names.topic})[names.topic].partitions)]
    lost = [value.replace("before", "lost") for value in values] if end == "committed" else []
    return sorted([*values, *lost, "after-0"])


# ---- controls


@pytest.mark.exhaustive  # its sample is the healing beside it
def test_control_unhealed_the_next_abort_takes_committed_rows_with_it(scene: Scene) -> None:
    """The brokers do lose markers here, and the harness sees what comes of it."""
    names, client = scene.left["control"].names, scene.frail.client
    assert scene.values(names, wait_for_open=False) == ["before-0", "before-1", "lost-1"], (
        "a marker came: the scene is not set"
    )
    successor = fence(client, names.id)
    assert add_partitions(client, successor, [(names.topic, 0)], client.deadline()) == 0
    fence(client, names.id)
    assert scene.values(names) == ["before-0", "before-1", "lost-1"], "half of a committed transaction is gone for good"
    assert scene.nothing_is_open(names)


# ---- by the owner, and by whoever comes next


@pytest.mark.parametrize("place", PLACES)
def test_by_the_owner_itself(scene: Scene, place: str) -> None:
    left = scene.left[f"living {place} committed"]
    assert left.producer is not None
    left.producer.wait_visible()
    go_on(left.producer, left.names)
    left.producer.close()
    assert scene.values(left.names) == expected("committed", left.names, scene.frail)


def test_an_abort_by_the_owner_itself(scene: Scene) -> None:
    left = scene.left["living data aborted"]
    assert left.producer is not None
    go_on(left.producer, left.names)
    left.producer.close()
    assert scene.values(left.names) == expected("aborted", left.names, scene.frail)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("place", PLACES)
def test_across_a_takeover(scene: Scene, place: str, end: str) -> None:
    names = scene.left[f"dead {place} {end}"].names
    scene.take_over(names)
    assert scene.values(names) == expected(end, names, scene.frail)
    assert scene.nothing_is_open(names)


# ---- offsets of a group


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("what", ["another partition", "another group", "after one without offsets"])
def test_pending_offsets_are_not_settled_by_somebody_elses_marker(scene: Scene, what: str, end: str) -> None:
    """The next transaction commits other offsets on the same partition of the offsets topic: its marker would commit
    these all the same.
    """
    names, client = scene.left[f"{what}, {end}"].names, scene.frail.client
    where = offsets_partition(client, names.group)
    others = (f"{names.group}-{n}" for n in itertools.count())
    group = next(g for g in others if offsets_partition(client, g) == where) if what == "another group" else names.group
    if what == "after one without offsets":
        with cluster(scene.frail) as ours, ours.producer(names.id) as producer, producer.transaction() as txn:
            txn.send(names.topic, pa.table({"value": ["between"], "partition": [1]}))
    with cluster(scene.frail) as ours, ours.producer(names.id) as producer, producer.transaction() as txn:
        txn.send_offsets({(names.topic, 1): 5}, group=group)
    found = committed(client, names.group, [(names.topic, 0)], require_stable=True)
    assert found == {(names.topic, 0): 7 if end == "committed" else 1}


# ---- across two takeovers in a row


@pytest.mark.parametrize(
    "step", [OwnerStep.INITIALISED, OwnerStep.PROGRESS_READ, OwnerStep.HEALED], ids=lambda step: step.value
)
def test_a_successor_that_dies_too(scene: Scene, monkeypatch: pytest.MonkeyPatch, step: Step) -> None:
    """Whatever the first one has done, the second decides the same.

    At ``healed``, some partitions have their markers and others do not.
    """
    names = scene.left[f"dies {step.value}"].names

    def die(passed: Step, detail: str) -> None:
        if passed is step and detail.startswith(names.id):
            raise Died

    monkeypatch.setattr(semel.steps, "_observer", die)
    with cluster(scene.frail) as ours, pytest.raises(Died):
        ours.producer(names.id).take_over([names.topic], names.group)
    monkeypatch.undo()
    scene.take_over(names)
    assert scene.values(names) == expected("committed", names, scene.frail)


@pytest.mark.parametrize("step", [OwnerStep.DECISION_WRITTEN, OwnerStep.HEALED], ids=lambda step: step.value)
def test_an_owner_that_dies_while_it_heals(scene: Scene, step: Step) -> None:
    """All its markers were lost, and the owner alone knew how it had ended: what it has written down is what its
    successor goes by.
    """
    left = scene.left[f"owner dies {step.value}"]
    assert left.producer is not None
    with pytest.raises(Died):
        left.producer.wait_visible()
    scene.take_over(left.names)
    assert scene.values(left.names) == expected("committed", left.names, scene.frail)


# ---- what cannot be healed


@pytest.mark.parametrize("end", ENDS)
def test_what_nobody_knows_is_not_guessed(scene: Scene, end: str) -> None:
    """Data and progress have lost their markers, and the owner has died before it could say how it had ended."""
    names = scene.left[f"nobody knows {end}"].names
    for _ in range(2):
        with pytest.raises(
            semel.DataLoss,
            match=rf"DECISION_UNKNOWN.*semel txn heal {names.topic} 0 --producer-id \d+ --transactional-id {names.id}",
        ):
            scene.take_over(names)
    assert scene.values(names, wait_for_open=False) == ["before-0"]
    assert not scene.nothing_is_open(names), "and nothing was settled"


def test_another_programs_transaction_is_not_guessed(scene: Scene) -> None:
    """It was committed under this id, and writes no progress.

    A start that stops leaves a claim, and a look too: neither says how it had ended.
    """
    names, client = scene.left["of another program"].names, scene.frail.client
    for _ in range(2):
        with pytest.raises(semel.DataLoss, match="DECISION_UNKNOWN"):
            scene.take_over(names)
        (opened,) = open_transactions(client, [(names.topic, 0)])[names.topic, 0]
        assert find_open_rows(client, (names.topic, 0), opened.producer_id).committed is None
        assert not scene.nothing_is_open(names)
    write_marker(client, find_open_rows(client, (names.topic, 0), opened.producer_id), commit=True)
    assert scene.values(names) == ["strange"]
    scene.take_over(names)
    assert scene.values(names) == ["after-0", "strange"]


def test_rows_of_two_transactions_in_one_are_not_guessed(scene: Scene) -> None:
    """Somebody has used the id without healing it: behind the rows that lost their marker lie others, open as well."""
    names, client = scene.left["mixed"].names, scene.frail.client
    write_as(client, fence(client, names.id), names)
    with scene.frail.leaderless():
        fence(client, names.id)  # and the marker of this abort is lost as well
    with pytest.raises(semel.DataLoss, match="DECISION_UNKNOWN"):
        scene.take_over(names)
    assert "lost-0" not in scene.values(names, wait_for_open=False)


def test_a_successor_without_the_right(scene: Scene) -> None:
    names = scene.left["no right"].names
    told = (
        rf"MARKER_LOST.*{names.topic}-0 from offset 2 .*which was committed.*the right Alter on the cluster is"
        rf" missing.*heal {names.topic} 0 --pro"
    )
    with pytest.raises(semel.ConfigError, match=told):
        scene.take_over(names, may_heal=False)
    assert scene.values(names, wait_for_open=False) == ["before-0", "before-1", "lost-1"]
    scene.take_over(names)
    assert scene.values(names) == expected("committed", names, scene.frail)


def test_an_owner_without_the_right(scene: Scene) -> None:
    """Its rows are committed, and it says so: who writes them again doubles them.

    With the right it goes on where it stopped.
    """
    left = scene.left["living, no right"]
    assert left.producer is not None
    with pytest.raises(semel.ConfigError, match=r"MARKER_LOST.*which was committed"):
        left.producer.wait_visible()
    with pytest.raises(semel.ConfigError, match="MARKER_LOST"):
        left.producer.transaction()
    scene.frail.secured.allow("app", [MAY_HEAL])
    try:
        left.producer.wait_visible()
    finally:
        scene.frail.secured.withdraw("app", MAY_HEAL)
    go_on(left.producer, left.names)
    left.producer.close()
    assert scene.values(left.names) == expected("committed", left.names, scene.frail)


# ---- at the epochs' end


@pytest.mark.parametrize("who", ["living", "dead"])
def test_the_last_epoch(scene: Scene, who: str) -> None:
    """The next identity has another producer id, with which the rows cannot be ended any more."""
    left = scene.left[f"{who}, worn"]
    known = describe(scene.frail.client, left.names.id)
    assert known is not None
    wrote = written_by(scene.frail.client, (left.names.topic, 0), 2, scene.frail.client.deadline())
    assert wrote is not None
    assert wrote[1] == LAST_EPOCH
    assert wrote[0] != known.producer_id
    if left.producer is not None:
        left.producer.wait_visible()
        go_on(left.producer, left.names)
        left.producer.close()
    else:
        scene.take_over(left.names)
    assert scene.values(left.names) == expected("committed", left.names, scene.frail)
