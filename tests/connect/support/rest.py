"""A worker that answers REST, semel's or Kafka's own, and what tests ask of both."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from pyspark.sql import SparkSession

from semel.testing.records import read
from tests.connect.support.running import Running
from tests.support import topics
from tests.support.waiting import wait_for

FILE_SOURCE = "FileStreamSource"
_numbers = count(1)


class Rest:
    """A worker that answers, semel's or Kafka's own."""

    def __init__(self, who: str, address: str, servers: str, worker: dict[str, str], folder: Path) -> None:
        self.who, self.address, self.servers, self.worker, self.folder = who, address, servers, worker, folder
        #: Sent with each request, and whom to believe.
        self.headers: dict[str, str] = {}
        self.trusts: ssl.SSLContext | None = None

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return the status and the JSON of an answer. The body is JSON unless it is bytes."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {
            "Content-Type": "application/json",
            **self.headers,
            **{name.replace("_", "-"): one for name, one in headers.items()},
        }
        request = Request(f"{self.address}{path}", data=data, method=method, headers=sent)
        try:
            with urlopen(request, timeout=90, context=self.trusts) as answer:
                status, text = answer.status, answer.read()
        except HTTPError as error:
            status, text = error.code, error.read()
        return status, json.loads(text) if text else None

    def answers(self) -> bool:
        """Return whether it is ready for requests."""
        try:
            return self.ask("GET", "/health")[0] == 200
        except OSError:
            return False

    def new(self, lines: int = 3) -> tuple[str, dict[str, str]]:
        """Return a name and a configuration, with a file and a topic of its own."""
        name = f"rest-{self.who}-{next(_numbers)}"
        topics.create(self.servers, name)
        file = self.folder / f"{name}.txt"
        file.write_text("".join(f"line {number}\n" for number in range(lines)))
        return name, {"connector.class": FILE_SOURCE, "file": str(file), "topic": name, "tasks.max": "1"}

    def states(self, name: str) -> list[str]:
        """Return the states of the connector and of its tasks, or none without a status."""
        status, shown = self.ask("GET", f"/connectors/{name}/status")
        return [] if status == 404 else [one["state"] for one in (shown["connector"], *shown["tasks"])]

    def wait_states(self, name: str, *states: str) -> None:
        wait_for(lambda: self.states(name) == list(states), lambda: f"{states}, not {self.states(name)}", 90)

    def values(self, topic: str) -> list[str]:
        rows = read(self.servers, [topic], {"value": "value"}).sort_by("offset")
        return [str(value) for value in rows["value"].to_pylist()]


@contextmanager
def semel_connect(spark: SparkSession, worker: dict[str, str]) -> Iterator[str]:
    given = {
        **worker,
        "config.storage.topic": f"{worker['group.id']}-configs",
        "status.storage.topic": f"{worker['group.id']}-status",
        "listeners": "http://127.0.0.1:0",
    }
    running = Running(spark, given, [])
    try:
        yield running.worker.addresses[0]
    finally:
        running.worker.stop()
