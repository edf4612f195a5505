"""What REST shows of a task, from what its process reports."""

from __future__ import annotations

from typing import Any

from semel.connect.herder.reports import Reports, Run
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.stores.statuses import StatusStore
from semel.processes.supervisor import State, Status


def reports() -> tuple[Reports, StatusStore]:
    given = {"bootstrap.servers": "localhost:1", "group.id": "its"}
    topics = {f"{name}.storage.topic": name for name in ("config", "offset", "status")}
    converters = dict.fromkeys(("key.converter", "value.converter"), "StringConverter")
    config = WorkerConfig.parse({**given, **topics, **converters})
    nothing: Any = None  # no client and no store is asked for a state
    statuses = StatusStore(nothing, None)
    made = Reports(config, nothing, statuses)
    made.runs["its"] = Run(0, {}, [{}], {}, sink=False)
    return made, statuses


def test_a_process_that_has_connected_waits_for_nothing() -> None:
    made, statuses = reports()
    made.changed(Status("its-0", State.UNASSIGNED, reason="its Python has not connected"))
    assert statuses.tasks["its"][0].trace == "its Python has not connected"
    made.changed(Status("its-0", State.RUNNING, where="here:1"))
    shown = statuses.tasks["its"][0]
    assert (shown.state, shown.trace) == ("UNASSIGNED", None)
    made.heard("its-0", {})
    assert statuses.tasks["its"][0].state == "RUNNING"


def test_a_process_that_connects_again_takes_its_id_over_again() -> None:
    made, statuses = reports()
    made.heard("its-0", {})
    made.changed(Status("its-0", State.RESTARTING, reason="its process was lost"))
    assert (statuses.tasks["its"][0].state, statuses.tasks["its"][0].trace) == ("RESTARTING", None)
    made.changed(Status("its-0", State.RUNNING, where="here:2"))
    assert statuses.tasks["its"][0].state == "UNASSIGNED"
    made.changed(Status("its-0", State.FAILED, reason="no such table", trace="its trace"))
    assert (statuses.tasks["its"][0].state, statuses.tasks["its"][0].trace) == ("FAILED", "its trace")
