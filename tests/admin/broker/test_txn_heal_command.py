"""``semel txn heal``: an operator writes the marker that was lost, as it was decided; or decides, and then the query
goes on.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from typer.testing import CliRunner, Result

import semel
import semel.admin.txn_heal
from semel.admin.txn_heal import find_open_rows, write_marker
from semel.cli import app
from semel.transaction.markers.wait import hanging_transactions
from semel.transaction.progress.record import RecordedOutcome
from semel.transaction.progress.topic import DEFAULT_TOPIC, ProgressTopic
from semel.wire.api.describe_transactions import open_transactions, write_markers
from semel.wire.api.transactions import fence
from semel.wire.deadline import Deadline
from tests.support.leaderless_cluster import APP, MAY_HEAL, Names
from tests.support.lost_markers import Died, Left, Scene, Stage, cluster, rows, scene_of
from tests.support.secured import Right
from tests.transaction.support.last_epochs import LAST_EPOCH, use_up


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with scene_of(prepare) as ready:
        yield ready


def prepare(stage: Stage) -> dict[str, Left]:
    where = stage.where
    whats = ("committed", "without a right", "least rights", "by its id", "contradicted", "went on")
    known = {what: stage.dead(where.names(data=True)) for what in whats}
    elsewhere = where.progress_topic("elsewhere")
    known["elsewhere"] = stage.dead(where.names(data=True), progress_topic=elsewhere)
    worn = where.names(data=True)
    use_up(where.kafka.bootstrap_servers, worn.id, LAST_EPOCH - 1)
    known["worn"] = stage.strange(worn, commit=False)
    both = (
        "unknown, commit",
        "unknown, abort",
        "unknown, asked",
        "two, commit",
        "two, abort",
        "decided and died",
        "nothing kept",
    )
    unknown = {what: stage.dead(where.names(data=True, progress=True, beside=False)) for what in both}
    return known | unknown | {"late owner": stage.late(where.names(data=True, progress=True, beside=False))}


def heal(
    scene: Scene,
    names: Names,
    *how: str,
    answer: str = "",
    at: tuple[str, int] | None = None,
    producer_id: int | None = None,
) -> Result:
    topic, index = at or (names.topic, 0)
    servers = scene.frail.kafka.bootstrap_servers
    if producer_id is None:
        opened = open_transactions(scene.frail.client, [(topic, index)])[topic, index]
        assert len(opened) <= 1
        producer_id = opened[0].producer_id if opened else 0
    arguments = [
        "txn",
        "heal",
        topic,
        str(index),
        "--producer-id",
        str(producer_id),
        "--bootstrap-server",
        servers,
        *how,
    ]
    return CliRunner().invoke(app, arguments, input=answer)


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


def test_while_a_coordinator_has_something_open_nothing_is_written(scene: Scene) -> None:
    names = scene.left["went on"].names
    with semel.Cluster(scene.frail.properties()) as ours, ours.producer("in-between") as stranger:
        stranger.take_over([names.topic])
        txn = stranger.transaction()
        txn.send(names.topic, rows("open", names, scene.frail).slice(1))
        busy = heal(scene, names, "--yes", "--as", "commit", at=(names.topic, 1))
        assert isinstance(busy.exception, semel.ConfigError)
        assert busy.exception.tag == "TRANSACTION_OPEN"
        assert "semel txn abort in-between" in str(busy.exception)
        txn.abort()


def test_without_the_right_it_is_named(scene: Scene, tmp_path: Path) -> None:
    names = scene.left["without a right"].names
    login = scene.frail.login(tmp_path)
    refused = heal(scene, names, "--yes", *login)
    assert isinstance(refused.exception, semel.ConfigError)
    assert "the right Alter on the cluster is missing" in str(refused.exception)
    assert not scene.nothing_is_open(names)
    scene.frail.secured.allow("app", [MAY_HEAL])
    try:
        assert heal(scene, names, "--yes", *login).exit_code == 0
    finally:
        scene.frail.secured.withdraw("app", MAY_HEAL)
    assert scene.nothing_is_open(names)


def test_with_its_least_rights_and_without_each_of_them(scene: Scene, tmp_path: Path) -> None:
    """As docs/security.md has them."""
    names, secured, login = scene.left["least rights"].names, scene.frail.secured, scene.frail.login(tmp_path)
    on_topics = [
        (names.topic, AclOperation.READ),
        (DEFAULT_TOPIC, AclOperation.READ),
        (DEFAULT_TOPIC, AclOperation.WRITE),
    ]
    needs: list[Right] = [
        (ResourceType.TOPIC, name, operation)
        for name, operation in [*on_topics, ("__transaction_state", AclOperation.DESCRIBE)]
    ]
    needs += [(ResourceType.TRANSACTIONAL_ID, names.id, AclOperation.DESCRIBE), MAY_HEAL]
    how = ("--transactional-id", names.id, "--yes", *login)
    for right in APP:
        secured.withdraw("app", right)
    try:
        for missing in needs:
            secured.allow("app", [right for right in needs if right != missing])
            refused = heal(scene, names, *how)
            assert isinstance(refused.exception, semel.ConfigError), missing
            assert re.search(r"the right [\w ]+ on ", str(refused.exception)), missing
            assert not scene.nothing_is_open(names)
            for right in needs:
                secured.withdraw("app", right)
        secured.allow("app", needs)
        assert heal(scene, names, *how).exit_code == 0
    finally:
        for right in needs:
            secured.withdraw("app", right)
        secured.allow("app", APP)
    assert scene.values(names) == ["before-0", "before-1", "lost-0", "lost-1"]


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


def test_of_whom_one_may_not_know_is_not_touched(scene: Scene, tmp_path: Path) -> None:
    """A transaction goes on under an id that this login may not describe: brokers leave it out without a word. Its rows
    carry the time of their source, years ago, and so say nothing of when they were written.
    """
    names = scene.left["went on"].names
    unseen: Right = (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.ALL)
    login = scene.frail.login(tmp_path)
    mine: Right = (ResourceType.TRANSACTIONAL_ID, "mine", AclOperation.ALL)
    fence(scene.frail.client, "mine")
    scene.frail.secured.withdraw("app", unseen)
    scene.frail.secured.allow("app", [mine])
    try:
        with cluster(scene.frail) as ours, ours.producer("at-work") as stranger:
            stranger.take_over([names.topic])
            txn = stranger.transaction()
            txn.send(
                names.topic,
                pa.table({"value": ["open"], "partition": [1], "timestamp": pa.array([0], pa.timestamp("ms"))}),
            )
            for named, tag in (
                ((), "TRANSACTION_OPEN"),
                (("--transactional-id", "mine"), "TRANSACTION_OPEN"),
                (("--transactional-id", "somebody"), "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
            ):
                refused = heal(scene, names, "--as", "commit", "--yes", *login, *named, at=(names.topic, 1))
                assert isinstance(refused.exception, semel.ConfigError)
                assert refused.exception.tag == tag
            asked = heal(scene, names, "--as", "commit", "--owner-gone", *login, at=(names.topic, 1), answer="n\n")
            assert "known to no broker any more" in asked.output
            assert open_transactions(scene.frail.client, [(names.topic, 1)])[names.topic, 1]
            txn.abort()
    finally:
        scene.frail.secured.withdraw("app", mine)
        scene.frail.secured.allow("app", [unseen])


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
