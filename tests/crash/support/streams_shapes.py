"""Applications without a count: a copy, a join of a stream with a table, and a table alone, until all is read."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from semel.config import ClientConfig
from semel.streams import App
from semel.streams.worker import Worker
from semel.wire.api.offsets import committed
from semel.wire.client import Client

PARTITIONS = 4


@dataclass(frozen=True)
class ShapeJob:
    """``shape`` is copy, join or table. ``total`` is how many records the source has, ``users`` those of the table."""

    servers: str
    application_id: str
    shape: str
    source: str
    target: str
    total: int
    state_dir: str
    table: str = ""
    users: int = 0
    chunk: int = 20

    def app(self) -> App:
        """Return the application."""
        app = App(
            self.application_id,
            **{
                "bootstrap.servers": self.servers,
                "transaction.timeout.ms": 2_000,
                "session.timeout.ms": 2_000,
                "commit.interval.ms": 5,
                "max.poll.records": self.chunk,
                "state.dir": self.state_dir,
                "group.instance.id": "one",
            },
        )
        if self.shape == "table":
            app.table(self.source, name="table")
        elif self.shape == "copy":
            app.stream(self.source).to(self.target)
        else:
            users = app.table(self.table, key="string", value="string", name="users")
            stream = app.stream(self.source, key="string", value="string")
            stream.join(users, lambda number, user: f"{number} {user}", value="string").to(self.target)
        return app


def run(job: ShapeJob) -> None:
    """Work until all is read."""
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("semel").setLevel(logging.INFO)
    topics = {job.source: job.total, **({job.table: job.users} if job.table else {})}
    places = [(topic, index) for topic in topics for index in range(PARTITIONS)]
    with Client(ClientConfig.parse({"bootstrap.servers": job.servers})) as client, Worker(job.app()) as worker:
        while worker.step() or _read(client, job, places) < sum(topics.values()):
            pass
        worker.commit()


def _read(client: Client, job: ShapeJob, places: list[tuple[str, int]]) -> int:
    return sum(committed(client, job.application_id, places, require_stable=True).values())
