"""`semel mirror adopt`, and MirrorMaker 2's file for it."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from semel import cli
from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.wire.api.offsets import live_members
from semel.wire.client import Client
from tests.mirror.support.harness import alias_of, mm2
from tests.mirror.support.mirror_maker import MirrorMaker
from tests.support.waiting import wait_for

_ONE_BROKER = dict.fromkeys(
    (
        *(f"{kind}__storage__replication__factor" for kind in ("offset", "config", "status")),
        *(f"{kind}__topic__replication__factor" for kind in ("offset-syncs", "checkpoints")),
    ),
    "1",
)


def adopt(file: Path, origin: str, *options: str) -> str:
    """Adopt the flow of a file. Returns what it prints."""
    where = ["--from", origin, "--yes"]
    where += [] if "--source" in options else ["--source", alias_of(file), "--target", "B"]
    shown = CliRunner().invoke(cli.app, ["mirror", "adopt", str(file), *where, *options])
    if shown.exception is not None:
        raise shown.exception
    return shown.output


def file_of_both(directory: Path, a: Sandbox, b: Sandbox, topics: str, *, exactly_once: bool, **keys: str) -> Path:
    """Write a file that MirrorMaker 2 and semel are started with. Nothing commits offsets but the end in order."""
    support = "enabled" if exactly_once else "disabled"
    keys = {"B__exactly__once__source__support": support, "offset__flush__interval__ms": "3600000", **keys}
    return mm2(directory, a, b, topics, **_ONE_BROKER, **keys)


def wait_until_gone(b: Sandbox, file: Path, ended: MirrorMaker) -> None:
    """Wait until the target has no member of its workers any more."""
    with Client(ClientConfig.parse({"bootstrap.servers": b.bootstrap_servers})) as client:
        wait_for(lambda: not live_members(client, f"{alias_of(file)}-mm2"), ended.said)
