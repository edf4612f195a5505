"""``semel txn heal``: an operator writes the marker that was lost, as it was decided; or decides, and then the query
goes on.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import Result

import semel
import semel.admin.txn_heal
from semel.admin.txn_heal import find_open_rows, write_marker
from semel.transaction.markers.wait import hanging_transactions
from semel.transaction.progress.record import RecordedOutcome
from semel.transaction.progress.topic import ProgressTopic
from semel.wire.api.describe_transactions import open_transactions, write_markers
from semel.wire.deadline import Deadline
from tests.admin.support.heal import heal, prepare
from tests.support.leaderless_cluster import Names
from tests.support.lost_markers import Died, Scene, cluster, scene_of


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with scene_of(prepare) as ready:
        yield ready


def test_it_shows_and_asks_and_writes_what_was_decided(scene: Scene) -> None:
    names = scene.left["committed"].names
    refused = heal(scene, names, answer="n\n")
    assert refused.exit_code == 1
    assert re.search(r"outcome +committed", refused.output)
    assert "Write the marker, as commit?" in refused.output
    assert "Nothing was changed: it is still open" in refused.output
    assert scene.values(names, wait_for_open=False) == ["before-0", "before-1", "lost-1"], (
        "nothing is done before the answer"
    )
    assert heal(scene, names, answer="y\n").exit_code == 0
    assert scene.values(names) == ["before-0", "before-1", "lost-0", "lost-1"]
    again = heal(scene, names)
    assert isinstance(again.exception, semel.ConfigError)
    assert again.exception.tag == "NOTHING_TO_HEAL"


def test_for_scripts(scene: Scene) -> None:
    names = scene.left["by its id"].names
    done = heal(scene, names, "--transactional-id", names.id, "--yes", "--json")
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert (told["transactional_id"], told["committed"], told["healed_as"], told["first_offset"]) == (
        names.id,
        True,
        "commit",
        2,
    )
    assert scene.values(names) == ["before-0", "before-1", "lost-0", "lost-1"]


def test_what_is_known_is_not_contradicted(scene: Scene) -> None:
    names = scene.left["contradicted"].names
    torn = heal(scene, names, "--as", "abort", "--yes")
    assert isinstance(torn.exception, semel.ConfigError)
    assert torn.exception.tag == "DECISION_KNOWN"
    assert not scene.nothing_is_open(names)
    foreign = heal(scene, names, "--transactional-id", "somebody-else", "--yes")
    assert isinstance(foreign.exception, semel.ConfigError)
    assert foreign.exception.tag == "FOREIGN_PRODUCER_ID"


@pytest.mark.parametrize("end", ["commit", "abort", "asked"])
def test_where_nobody_knows_somebody_decides_and_the_query_goes_on(scene: Scene, end: str) -> None:
    """The decision is written down: the next owner ends the transaction's other partitions alike, and its batch is run
    again or not by that.
    """
    names = scene.left[f"unknown, {end}"].names
    undecided = heal(scene, names, "--yes")
    assert undecided.exit_code == 2
    assert "its outcome is not recorded" in undecided.output
    done = heal(scene, names, answer="commit\n") if end == "asked" else heal(scene, names, "--as", end, "--yes")
    assert done.exit_code == 0, done.output
    assert done.output.count("(commit, abort)") == (end == "asked")
    lost = [] if end == "abort" else ["lost-0"]
    assert scene.values(names) == ["before-0", *lost]
    progress = ProgressTopic(scene.frail.client, names.id, "producer").partition
    assert open_transactions(scene.frail.client, [progress])[progress], (
        "the progress partition is healed by whoever takes over"
    )
    scene.take_over(names)
    assert scene.values(names) == sorted(["after-0", "before-0", *lost])
    assert batch_of(scene, names) == (2 if lost else 1), "before, lost where it counts, and after"


def heal_progress(scene: Scene, names: Names, end: str) -> Result:
    """On the progress partition, where others may have something open too."""
    at = ProgressTopic(scene.frail.client, names.id, "producer").partition
    return heal(scene, names, "--as", end, "--yes", at=at, producer_id=whose(scene, names)[0])


@pytest.mark.parametrize("late", ["commit", "abort"])
def test_of_two_who_decide_at_once_the_first_counts(scene: Scene, monkeypatch: pytest.MonkeyPatch, late: str) -> None:
    """One stands between its last look and its decision while another decides, about the same transaction, on its other
    partition.
    """
    names, done = scene.left[f"two, {late}"].names, list[Result]()
    write_down = ProgressTopic.record_outcome

    def overtaken(topic: ProgressTopic, decided: RecordedOutcome, deadline: Deadline) -> bool:
        monkeypatch.setattr(ProgressTopic, "record_outcome", write_down)
        done.append(heal_progress(scene, names, "abort"))
        return write_down(topic, decided, deadline)

    monkeypatch.setattr(ProgressTopic, "record_outcome", overtaken)
    second = heal(scene, names, "--as", late, "--yes")
    assert done[0].exit_code == 0, done[0].output
    if late == "commit":
        assert isinstance(second.exception, semel.ConfigError)
        assert second.exception.tag == "DECISION_KNOWN"
        assert "has recorded first that this transaction ends as abort" in str(second.exception)
        assert not scene.nothing_is_open(names), "the second writes no marker"
    else:
        assert second.exit_code == 0, second.output
    scene.take_over(names)
    assert scene.values(names) == ["after-0", "before-0"], "and the query ends it as it is written down"
    assert batch_of(scene, names) == 1


def test_of_two_on_one_partition_who_can_write_nothing_down_the_second_is_told(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, done, write = scene.left["nothing kept"].names, list[Result](), write_markers
    nowhere = ("--yes", "--progress-topic", "nowhere")

    def overtaken(*what: Any) -> Any:
        monkeypatch.setattr(semel.admin.txn_heal, "write_markers", write)
        done.append(heal(scene, names, "--as", "abort", *nowhere))
        return write(*what)

    monkeypatch.setattr(semel.admin.txn_heal, "write_markers", overtaken)
    second = heal(scene, names, "--as", "commit", *nowhere)
    assert done[0].exit_code == 0, done[0].output
    assert isinstance(second.exception, semel.ConfigError)
    assert "these rows are aborted, and stay so" in str(second.exception)
    assert scene.values(names) == ["before-0"]


def test_a_decision_holds_when_who_made_it_dies_before_the_marker(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = scene.left["decided and died"].names

    def dies(*_: object, **__: object) -> None:
        raise Died

    found = find_open_rows(scene.frail.client, (names.topic, 0), *whose(scene, names))
    with monkeypatch.context() as patch:
        patch.setattr(semel.admin.txn_heal, "write_markers", dies)
        with pytest.raises(Died):
            write_marker(scene.frail.client, found, commit=True)
    contradicted = heal_progress(scene, names, "abort")
    assert isinstance(contradicted.exception, semel.ConfigError)
    assert contradicted.exception.tag == "DECISION_KNOWN"
    scene.take_over(names)
    assert scene.values(names) == ["after-0", "before-0", "lost-0"]
    assert batch_of(scene, names) == 2


def test_an_owner_that_wakes_behind_another_decision_writes_no_marker(scene: Scene) -> None:
    """It alone knows that it was committed, and an operator has said abort: what is written down holds for it too, and
    it says so.
    """
    left = scene.left["late owner"]
    names, producer = left.names, left.producer
    assert producer is not None
    assert heal(scene, names, "--as", "abort", "--yes").exit_code == 0
    left.wake()
    for _ in range(2):
        with pytest.raises(
            semel.DataLoss,
            match=rf"DECISION_CONTRADICTED.*{names.id}.* was committed.*an operator recorded it as aborted",
        ):
            producer.wait_visible()
    scene.take_over(names)
    assert scene.values(names) == ["after-0", "before-0"], "and not torn: no marker of it had come anywhere"
    assert batch_of(scene, names) == 1


def batch_of(scene: Scene, names: Names) -> int | None:
    with semel.Cluster(scene.frail.properties()) as ours, ours.producer(names.id) as producer:
        assert producer.take_over([names.topic], names.group) is not None
        assert producer.progress is not None
        return producer.progress.batch


def test_progress_that_is_kept_elsewhere(scene: Scene) -> None:
    """The query's own message names its topic.

    Without it nothing is known, however often it is looked; with it, what was committed is.
    """
    names = scene.left["elsewhere"].names
    with pytest.raises(
        semel.ConfigError, match=rf"--transactional-id {names.id} --progress-topic elsewhere --as commit"
    ):
        scene.take_over(names, may_heal=False, progress_topic="elsewhere")
    for _ in range(2):
        unknown = heal(scene, names, "--yes")
        assert unknown.exit_code == 2
        assert re.search(r"outcome +not recorded in semel-progress", unknown.output)
    assert not scene.nothing_is_open(names)
    known = heal(scene, names, "--yes", "--transactional-id", names.id, "--progress-topic", "elsewhere")
    assert known.exit_code == 0, known.output
    assert scene.values(names) == ["before-0", "before-1", "lost-0", "lost-1"]


def test_records_of_the_producer_id_that_followed_say_nothing_of_the_one_before(scene: Scene) -> None:
    """At the epochs' end the id went on with another producer id, and has committed since: compaction may have dropped
    the first one's.
    """
    names, other = scene.left["worn"].names, scene.left["went on"].names
    with cluster(scene.frail) as ours, ours.producer(names.id) as producer:
        producer.take_over()
        with producer.transaction() as txn:
            txn.send(other.topic, pa.table({"value": ["newer"], "partition": [1]}))
    unnamed = heal(scene, names, "--transactional-id", names.id, "--as", "abort", "--yes")
    assert isinstance(unnamed.exception, semel.ConfigError)
    assert unnamed.exception.tag == "TRANSACTION_OPEN", "that the id is known does not say that these rows are its own"
    found = find_open_rows(scene.frail.client, (names.topic, 0), *whose(scene, names), owner_gone=True)
    assert found.committed is None
    assert heal(scene, names, "--transactional-id", names.id, "--as", "abort", "--yes", "--owner-gone").exit_code == 0
    assert scene.values(names) == []


def whose(scene: Scene, names: Names) -> tuple[int, str]:
    (opened,) = open_transactions(scene.frail.client, [(names.topic, 0)])[names.topic, 0]
    return opened.producer_id, names.id


def test_rows_of_others_that_nobody_ends_are_named_and_those_at_work_are_not(scene: Scene) -> None:
    names, working = scene.left["contradicted"].names, scene.left["went on"].names
    with cluster(scene.frail) as ours, ours.producer("at-work-too") as stranger:
        stranger.take_over([working.topic])
        txn = stranger.transaction()
        txn.send(working.topic, pa.table({"value": ["open"], "partition": [1]}))
        everywhere = open_transactions(scene.frail.client, [(names.topic, 0), (working.topic, 1)])
        assert all(everywhere.values())
        (named,) = hanging_transactions(scene.frail.client, everywhere, (time.time() + 60) * 1000)
        assert f"semel txn heal {names.topic} 0 --producer-id {whose(scene, names)[0]}" in named
        assert hanging_transactions(scene.frail.client, everywhere, (time.time() - 900) * 1000) == []
        txn.abort()
