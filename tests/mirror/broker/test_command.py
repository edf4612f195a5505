"""``semel mirror``: the command line, without Spark where it does not copy."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from semel import cli
from semel.config import ClientConfig
from semel.mirror.offsets.segment_topic import SEGMENTS
from semel.sandbox import Sandbox
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.wire.api import authorized_operations
from semel.wire.client import Client
from tests.mirror.support.harness import alias_of, mm2, topics_of, unique
from tests.support import topics


def test_check_shows_what_would_be_done_and_does_nothing(a: Sandbox, b: Sandbox, tmp_path: Path) -> None:
    first, second = (topics.create(a.bootstrap_servers, unique("check"), 3) for _ in range(2))
    file = mm2(tmp_path, a, b, "check.*, B.check")
    topics.create(a.bootstrap_servers, "B.check", 1)
    topics.create(b.bootstrap_servers, f"{alias_of(file)}.{second}", 2)
    # the first question for a coordinator has the broker make its own topic of groups
    with Client(ClientConfig.parse({"bootstrap.servers": b.bootstrap_servers})) as client:
        authorized_operations.of_group(client, unique("group"))
    before = topics_of(b)
    shown = CliRunner().invoke(cli.app, ["mirror", "check", str(file)])
    lines = [" ".join(line.split()) for line in shown.output.splitlines()]
    assert lines == [
        f"{alias_of(file)}->B, exactly once, from the earliest offset on",
        f"{alias_of(file)} partitions B",
        "B.check 1 - not mirrored: it has come from B",
        f"{first} 3 {alias_of(file)}.{first} is made",
        f"{second} 3 {alias_of(file)}.{second} grows from 2 partitions",
        "for the mirror itself on holds",
        f"semel-progress B positions {'is there' if DEFAULT_TOPIC in before else 'is made'}",
        f"{SEGMENTS} B offsets of copied records {'is there' if SEGMENTS in before else 'is made'}",
        f"{alias_of(file)}.checkpoints.internal B checkpoints of groups is made when something is written to it",
        f"mm2-offset-syncs.B.internal {alias_of(file)} offset syncs is made when something is written to it",
        "tasks.max: changes nothing here",
    ]
    assert topics_of(b) == before


def test_check_names_the_topics_of_heartbeats_and_offset_syncs(a: Sandbox, b: Sandbox, tmp_path: Path) -> None:
    keys = {"emit.heartbeats.enabled": "true", "emit.checkpoints.enabled": "false"}
    alias = unique("A")
    file = mm2(tmp_path, a, b, unique("none"), alias, **keys)
    shown = CliRunner().invoke(cli.app, ["mirror", "check", str(file)])
    lines = [" ".join(line.split()) for line in shown.output.splitlines()]
    here, there = topics_of(a), topics_of(b)
    assert f"mm2-offset-syncs.B.internal {alias} offset syncs is made when something is written to it" in lines
    assert f"heartbeats {alias} heartbeats {'is there' if 'heartbeats' in here else 'is made'}" in lines
    assert f"heartbeats B heartbeats {'is there' if 'heartbeats' in there else 'is made'}" in lines
    assert "checkpoints" not in shown.output


def test_the_help_names_all_of_it() -> None:
    shown = CliRunner().invoke(cli.app, ["mirror", "--help"])
    assert shown.exit_code == 0
    for name in ("run", "check", "status", "translate", "adopt", "resolve"):
        assert name in shown.output
    assert "--once" in CliRunner().invoke(cli.app, ["mirror", "run", "--help"]).output


def test_the_file_is_looked_at_before_spark_is_started(tmp_path: Path) -> None:
    for arguments in ([str(tmp_path / "none.properties")], ["--once", str(tmp_path / "none.properties")]):
        refused = CliRunner().invoke(cli.app, ["mirror", *arguments]).exception
        assert getattr(refused, "tag", None) == "PROPERTIES"
    shown = CliRunner().invoke(cli.app, ["mirror", "some.properties", "--conf", "spark.x"])
    assert shown.exit_code == 2
    assert "NAME=VALUE" in shown.output
