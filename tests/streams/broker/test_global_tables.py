"""Global tables on a broker: read whole before the first task, kept up to date, and read again after a start."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.errors import ConfigError
from semel.streams import App
from semel.streams.state.global_stores import GlobalStores
from semel.streams.state.rocks import Rocks
from semel.streams.worker.worker import Worker
from semel.wire.client import Client
from tests.streams.support.applications import fill, names, values
from tests.support.topics import create
from tests.support.waiting import wait_for


def test_each_worker_has_all_of_it(servers: str, tmp_path: Path) -> None:
    name = f"global-{next(names)}"
    conf = {"bootstrap.servers": servers, "commit.interval.ms": 50, "state.dir": str(tmp_path / "state")}
    users, orders, out = create(servers, f"{name}-u", 3), create(servers, f"{name}-o", 1), create(servers, f"{name}-x")

    def joining() -> App:
        app = App(name, **conf)
        table = app.global_table(users, key="string", value="string", name="users")
        stream = app.stream(orders, key="string", value="string")
        stream.left_join(table, lambda by, user: f"{by} {user}", key_selector=lambda one: one.value, value="string").to(
            out
        )
        return app

    fill(servers, users, *((f"{number}", f"user {number}", 1) for number in range(20)), ("5", "renamed", 2))
    folder = tmp_path / "state" / name / "global" / "rocksdb" / "users"
    planted = Rocks(folder)
    planted.write([(b"none", bytes(8) + b"planted")], [], None)
    planted.close()
    fill(servers, orders, ("a", "7", 5), ("b", "5", 5), ("c", "none", 5))
    with Worker(joining()) as worker:
        wait_for(lambda: not worker.step() and len(values(servers, out)) == 3, "the joined rows", 60)
        fill(servers, users, ("none", "new", 9))

        def is_there() -> bool:
            worker.step()
            return worker._globals.stores["users"].get([b"none"]) != [None]

        wait_for(is_there, "the new row of the table", 60)
        fill(servers, orders, ("d", "none", 6))
        wait_for(lambda: not worker.step() and len(values(servers, out)) == 4, "the row after it", 60)
        with Client(joining().settings.client) as client, pytest.raises(ConfigError, match="STATE_LOCKED"):
            GlobalStores(client, joining().topology, joining().settings)
        fill(servers, orders, ("e", "19", 7))
        wait_for(lambda: not worker.step() and len(values(servers, out)) == 5, "rows beside another worker", 60)
    found = dict(values(servers, out))
    assert found == {"a": "7 user 7", "b": "5 renamed", "c": "none None", "d": "none new", "e": "19 user 19"}
    with Worker(joining()) as worker:  # its folder was closed, and is read again
        assert worker._globals.stores["users"].get([b"5", b"none"]) == [
            (time).to_bytes(8, "big") + value for time, value in ((2, b"renamed"), (9, b"new"))
        ]
