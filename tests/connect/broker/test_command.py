"""``semel connect`` as a program: its end while it starts. ``semel connect test``: it finds a connector that keeps its
offset in memory, and no fault in another.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from semel.sandbox import Sandbox
from semel.steps import ConnectStep
from semel.testing.connector import check_connector
from semel.testing.program import Program
from tests.connect.support.lines import SEMEL, STRING
from tests.support.waiting import wait_for

#: A cluster that is not there: Spark asks for it for a minute.
_ABSENT = "spark://127.0.0.1:1"


def test_a_worker_that_is_asked_to_end_does_not_wait_for_spark_to_start(kafka: Sandbox, tmp_path: Path) -> None:
    worker, connector = tmp_path / "worker.properties", tmp_path / "connector.properties"
    worker.write_text(
        f"bootstrap.servers={kafka.bootstrap_servers}\ngroup.id=soon-over\noffset.storage.topic=soon-over-offsets\n"
        f"offset.storage.partitions=1\nkey.converter={STRING}\nvalue.converter={STRING}\nlisteners=\n"
    )
    connector.write_text("name=lines\nconnector.class=FileStreamSource\ntopic=none\nfile=/tmp/none\n")
    argv = [*SEMEL, "connect", str(worker), str(connector), "--master", _ABSENT]
    with Program(argv, os.environ, tmp_path / "worker.log") as program:
        wait_for(lambda: "starting Spark" in program.tail(), program.tail, 90)
        program.process.send_signal(signal.SIGTERM)
        assert program.wait(30) == 0
        assert program.said("stopped") == 1, program.tail()


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["Numbers", "Forgetful"])
def test_a_connector_is_tested(kind: str) -> None:
    given = {"connector.class": f"tests.connect.support.numbers.{kind}", "topic": "numbers", "limit": "400"}
    found = check_connector(given)
    assert found.expected == 400
    assert found.struck == tuple(ConnectStep)
    assert not found.lost
    assert found.exact is (kind == "Numbers")
    assert (sum(found.doubled.values()) > 0) is (kind == "Forgetful")
