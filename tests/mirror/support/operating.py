"""Flows that run in the process of the test, with REST; and what tests ask of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from pyspark.sql import SparkSession

from semel.mirror.config.properties import read_properties
from semel.mirror.flow import Flow, run_side_by_side
from semel.mirror.rest.app import serving_rest
from tests.mirror.support.harness import alias_of
from tests.support.waiting import PATIENCE_S, wait_for

#: Keys of a file with REST, for ``mm2``.
REST = {"dedicated__mode__enable__internal__rest": "true", "listeners": "http://127.0.0.1:0"}


class Operated:
    """The flows of a file, the first of which is asked about."""

    def __init__(self, flows: list[Flow], address: str, name: str) -> None:
        self.flows, self.address, self.name = flows, address, name
        self.failed: list[Exception] = []
        self.headers: dict[str, str] = {}

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status and the JSON of an answer."""
        data = None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **self.headers}
        try:
            with urlopen(Request(f"{self.address}{path}", data, sent, method=method), timeout=60) as answer:
                status, text = answer.status, answer.read()
        except HTTPError as error:
            status, text = error.code, error.read()
        return status, json.loads(text) if text else None

    def of_flow(self, method: str, path: str = "", body: Any = None) -> tuple[int, Any]:
        """Ask about the first flow."""
        return self.ask(method, f"/connectors/{quote(self.name)}{path}", body)

    @property
    def state(self) -> str:
        return str(self.of_flow("GET", "/status")[1]["connector"]["state"])

    def wait_state(self, state: str) -> None:
        wait_for(lambda: self.state == state, lambda: f"{state}, not {self.state}: {self.failed}")


@contextmanager
def operated(spark: SparkSession, path: Path, *, standby: bool = False) -> Iterator[Operated]:
    """Run the flows of a file, with REST, until the block is left."""
    config, stop = read_properties(path), threading.Event()
    assert config.rest is not None
    flows = [Flow(spark, flow, stop, standby=standby) for flow in config.flows]
    with serving_rest(config.rest, flows) as addresses:
        running = Operated(flows, addresses[0], f"{alias_of(path)}->B.MirrorSourceConnector")

        def run() -> None:
            try:
                run_side_by_side(flows)
            except Exception as error:
                running.failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield running
        finally:
            stop.set()
            thread.join(PATIENCE_S)
    assert not thread.is_alive()
