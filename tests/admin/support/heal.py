"""Runs of ``semel txn heal`` on a partition whose marker is lost."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from semel.cli import app
from semel.wire.api.describe_transactions import open_transactions
from tests.support.leaderless_cluster import Names
from tests.support.lost_markers import Left, Scene, Stage
from tests.transaction.support.last_epochs import LAST_EPOCH, use_up


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
