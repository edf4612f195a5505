"""``semel txn heal``: the rights that it needs, and what it does not touch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import AclOperation, ResourceType

import semel
import semel.admin.txn_heal
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.wire.api.describe_transactions import open_transactions
from semel.wire.api.transactions import fence
from tests.admin.support.heal import heal, prepare
from tests.support.leaderless_cluster import APP, MAY_HEAL
from tests.support.lost_markers import Scene, cluster, rows, scene_of
from tests.support.secured import Right

#: Its sample is test_txn_heal_command.py, with a cluster of its own.
pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with scene_of(prepare) as ready:
        yield ready


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
