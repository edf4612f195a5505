"""A versioned table on a broker: its history outlives its store."""

from __future__ import annotations

import shutil
from pathlib import Path

from semel.streams import App
from semel.streams.lookup import look_up
from semel.streams.worker.worker import Worker
from semel.wire.client import Client
from tests.streams.support.applications import fill, names, values
from tests.support.topics import create
from tests.support.waiting import wait_for

BASE = 1_700_000_000_000


def test_versions_are_found_after_a_restore(servers: str, tmp_path: Path) -> None:
    """Versions that came before the restart, late ones among them, are found by records that come after it."""
    name, state = f"versions-{next(names)}", tmp_path / "state"
    rates, sales, out = (create(servers, f"{name}-{topic}", 1) for topic in ("rates", "sales", "out"))

    def app() -> App:
        made = App(name, **{"bootstrap.servers": servers, "state.dir": str(state), "commit.interval.ms": 50})
        table = made.table(rates, key="string", value="json", name="rates", history_retention="1 min")
        stream = made.stream(sales, key="string", value="json")
        stream.left_join(table, lambda sale, rate: f"{sale} {rate}", value="string").to(out)
        return made

    def work(*expected: tuple[str, str]) -> None:
        with Worker(app()) as worker:
            wait_for(lambda: not worker.step() and values(servers, out) == sorted(expected), "the joined rows", 60)

    fill(servers, rates, *(("eur", str(at), BASE + at) for at in (10, 30, 20)))
    work()
    fill(servers, sales, ("eur", "1", BASE + 5), ("eur", "2", BASE + 25))
    work(("eur", "1 None"), ("eur", "2 20"))
    shutil.rmtree(state)
    fill(servers, rates, ("eur", "90", BASE + 90_000))  # the history begins after the others now
    fill(servers, sales, ("eur", "3", BASE + 95_000), ("eur", "4", BASE + 15), ("eur", "5", BASE + 89_000))
    work(("eur", "1 None"), ("eur", "2 20"), ("eur", "3 90"), ("eur", "4 None"), ("eur", "5 30"))
    with Client(app().settings.client) as client:
        (row,) = look_up(client, app().topology, "rates", "eur")
    assert (row["key"], row["value"], row["timestamp"]) == ("eur", "90", BASE + 90_000)
