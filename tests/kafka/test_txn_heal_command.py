"""``semel txn heal``: an operator writes the marker that was lost, as it was decided; or decides, and then the query goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

import semel
from semel.cli import app
from semel.transaction.progress_topic import ProgressTopic
from semel.wire.transactions import fence, open_transactions
from tests.kafka.frail import MAY_HEAL, Names
from tests.kafka.left import Left, Scene, Stage, rows, scene_of


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with scene_of(prepare) as ready:
        yield ready


def prepare(stage: Stage) -> dict[str, Left]:
    where = stage.where
    known = {what: stage.dead(where.names(data=True)) for what in ("committed", "without a right", "by its id", "contradicted", "went on")}
    unknown = {f"unknown, {end}": stage.dead(where.names(data=True, progress=True, beside=False)) for end in ("commit", "abort", "asked")}
    return known | unknown


def heal(scene: Scene, names: Names, *how: str, answer: str = "", at: tuple[str, int] | None = None) -> Result:
    topic, index = at or (names.topic, 0)
    servers = scene.frail.kafka.bootstrap_servers
    (opened,) = open_transactions(scene.frail.client, [(topic, index)])[topic, index] or [None]
    producer_id = opened.producer_id if opened is not None else 0
    arguments = ["txn", "heal", topic, str(index), "--producer-id", str(producer_id), "--bootstrap-server", servers, *how]
    return CliRunner().invoke(app, arguments, input=answer)


def test_it_shows_and_asks_and_writes_what_was_decided(scene: Scene) -> None:
    names = scene.left["committed"].names
    refused = heal(scene, names, answer="n\n")
    assert refused.exit_code == 1
    assert re.search(r"it had been +committed", refused.output)
    assert "Write the marker, as commit?" in refused.output
    assert scene.values(names, wait_for_open=False) == ["before-0", "before-1", "lost-1"], "nothing is done before the answer"
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
    assert (told["transactional_id"], told["committed"], told["healed_as"], told["first_offset"]) == (names.id, True, "commit", 2)
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


def test_without_the_right_it_is_named(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> None:
    names = scene.left["without a right"].names
    properties = scene.frail.properties(may_heal=False)
    file = tmp_path_factory.mktemp("login") / "login.properties"
    kept = ("security.protocol", "sasl.mechanism", "sasl.jaas.config")
    file.write_text("".join(f"{name}={properties[name]}\n" for name in kept))
    (opened,) = open_transactions(scene.frail.client, [(names.topic, 0)])[names.topic, 0]
    arguments = ["txn", "heal", names.topic, "0", "--producer-id", str(opened.producer_id), "--yes", "--command-config", str(file)]
    arguments += ["--bootstrap-server", str(properties["bootstrap.servers"])]
    refused = CliRunner().invoke(app, arguments)
    assert isinstance(refused.exception, semel.ConfigError)
    assert "the right Alter on the cluster is missing" in str(refused.exception)
    assert not scene.nothing_is_open(names)
    scene.frail.secured.allow("app", [MAY_HEAL])
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert scene.nothing_is_open(names)


@pytest.mark.parametrize("end", ["commit", "abort", "asked"])
def test_where_nobody_knows_somebody_decides_and_the_query_goes_on(scene: Scene, end: str) -> None:
    """The decision is written down: the next owner ends the transaction's other partitions alike, and its batch is run again or not by that."""
    names = scene.left[f"unknown, {end}"].names
    undecided = heal(scene, names, "--yes")
    assert undecided.exit_code == 2
    assert "nothing is written down of how it had ended" in undecided.output
    done = heal(scene, names, answer="commit\n") if end == "asked" else heal(scene, names, "--as", end, "--yes")
    assert done.exit_code == 0, done.output
    lost = [] if end == "abort" else ["lost-0"]
    assert scene.values(names) == ["before-0", *lost]
    progress = ProgressTopic(scene.frail.client, names.id, "producer").partition
    assert open_transactions(scene.frail.client, [progress])[progress], "the progress partition is healed by whoever takes over"
    scene.take_over(names)
    assert scene.values(names) == sorted(["after-0", "before-0", *lost])
    with semel.Cluster(scene.frail.properties()) as ours, ours.producer(names.id) as producer:
        assert producer.take_over([names.topic], names.group) is not None
        assert producer.progress is not None
        assert producer.progress.batch == (2 if lost else 1), "before, lost where it counts, and after"


def test_a_producer_id_that_nobody_knows_and_that_wrote_just_now_is_not_touched(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login that may not describe the transactional id is told nothing of it: its transaction may be under way."""
    names = scene.left["contradicted"].names
    monkeypatch.setattr("semel.transaction.remedy.describe_all", lambda *_, **__: [])
    unseen = heal(scene, names, "--as", "commit", "--yes")
    assert isinstance(unseen.exception, semel.ConfigError)
    assert unseen.exception.tag == "TRANSACTION_OPEN"
    assert "whose producer id" in str(unseen.exception)
    fence(scene.frail.client, names.id)
