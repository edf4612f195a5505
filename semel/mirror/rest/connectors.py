"""``/connectors``: look at flows, pause, resume, stop and restart them, or pause one topic."""

from __future__ import annotations

import traceback
from typing import Any

from starlette.routing import Route

from semel.errors import ConfigError
from semel.mirror.meter import Doing
from semel.mirror.operation.wanted import FlowState, pause_topic, set_state
from semel.mirror.rest.calls import Call, ShownFlow, connector_name, endpoint
from semel.web.calls import Answer

__all__ = ["ROUTES", "state_of"]

_CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
_KIND = "source"
_STATES = {
    Doing.STARTING: "UNASSIGNED",
    Doing.STANDING_BY: "UNASSIGNED",
    Doing.COPYING: "RUNNING",
    Doing.PAUSED: "PAUSED",
    Doing.STOPPED: "STOPPED",
    Doing.ENDED: "FAILED",
}


def _list(call: Call) -> Answer:
    wanted = call.query.get("expand", ())
    if not wanted:
        return Answer(body=[connector_name(flow.config) for flow in call.flows])
    shown: dict[str, Any] = {}
    for flow in call.flows:
        of_flow = shown[connector_name(flow.config)] = {}
        if "info" in wanted:
            of_flow["info"] = _info_of(flow)
        if "status" in wanted:
            of_flow["status"] = _status_of(flow, call.worker)
    return Answer(body=shown)


def _info(call: Call) -> Answer:
    return Answer(body=_info_of(call.flow))


def _config(call: Call) -> Answer:
    return Answer(body=_config_of(call.flow))


def _status(call: Call) -> Answer:
    return Answer(body=_status_of(call.flow, call.worker))


def _tasks(call: Call) -> Answer:
    flow = call.flow
    ids = _info_of(flow)["tasks"]
    return Answer(body=[{"id": one, "config": _config_of(flow)} for one in ids])


def _task_status(call: Call) -> Answer:
    _check_task(call)
    tasks = _status_of(call.flow, call.worker)["tasks"]
    if not tasks:
        raise _no_task(call)
    return Answer(body=tasks[0])


def _topics(call: Call) -> Answer:
    """Show the target topics that the process has written to, as Connect does for a source."""
    topics = sorted({topic for topic, _ in call.flow.meter.copied})
    return Answer(body={call.name: {"topics": topics}})


def _pause(call: Call) -> Answer:
    return _set_state(call, FlowState.PAUSED, 202)


def _resume(call: Call) -> Answer:
    return _set_state(call, FlowState.RUNNING, 202)


def _stop(call: Call) -> Answer:
    return _set_state(call, FlowState.STOPPED, 204)


def _set_state(call: Call, state: FlowState, status: int) -> Answer:
    flow = call.flow
    with call.target() as target:
        set_state(target, flow.config, state)
    return Answer(status)


def _pause_topic(call: Call) -> Answer:
    return _set_topic(call, is_paused=True)


def _resume_topic(call: Call) -> Answer:
    return _set_topic(call, is_paused=False)


def _set_topic(call: Call, *, is_paused: bool) -> Answer:
    flow = call.flow
    with call.target() as target:
        pause_topic(target, flow.config, call.path["topic"], is_paused=is_paused)
    return Answer(202)


def _restart(call: Call) -> Answer:
    flow = call.flow
    only_failed = call.flag("onlyFailed")
    if not only_failed or flow.failed is not None:
        flow.restart()
    if call.flag("includeTasks") or only_failed:
        return Answer(202, _status_of(flow, call.worker))
    return Answer(204)


def _restart_task(call: Call) -> Answer:
    _check_task(call)
    call.flow.restart()
    return Answer(204)


def _check_task(call: Call) -> None:
    if call.flow and int(call.path["task"]) != 0:
        raise _no_task(call)


def _no_task(call: Call) -> ConfigError:
    return ConfigError(f"No status found for task {call.name}-{call.path['task']}.", tag="CONNECTOR_UNKNOWN")


# ---- as Connect shows them


def _config_of(flow: ShownFlow) -> dict[str, str]:
    policy = flow.config.policy
    return {
        "connector.class": _CLASS,
        "name": connector_name(flow.config),
        "source.cluster.alias": policy.source,
        "target.cluster.alias": policy.target,
        "replication.policy.class": type(policy).__name__,
    }


def _info_of(flow: ShownFlow) -> dict[str, Any]:
    name = connector_name(flow.config)
    tasks = [] if flow.meter.doing is Doing.STOPPED else [{"connector": name, "task": 0}]
    return {"name": name, "config": _config_of(flow), "tasks": tasks, "type": _KIND}


def state_of(flow: ShownFlow) -> str:
    """Return the state of a flow, as Kafka Connect names those of connectors."""
    meter = flow.meter
    return "RESTARTING" if meter.tries_again and meter.running else _STATES[meter.doing]


def _status_of(flow: ShownFlow, worker: str) -> dict[str, Any]:
    """Return the state of a flow, as that of a connector with one task. A stopped one has none."""
    meter = flow.meter
    shown: dict[str, Any] = {"state": state_of(flow), "worker_id": worker}
    if flow.failed is not None:
        shown["trace"] = "".join(traceback.format_exception(flow.failed))
    tasks = [] if meter.doing is Doing.STOPPED else [{"id": 0, **shown}]
    return {"name": connector_name(flow.config), "connector": shown, "tasks": tasks, "type": _KIND}


_NAME = "/connectors/{name}"
ROUTES = [
    Route(path, endpoint(function), methods=[method])
    for method, path, function in (
        ("GET", "/connectors", _list),
        ("GET", _NAME, _info),
        ("GET", f"{_NAME}/config", _config),
        ("GET", f"{_NAME}/status", _status),
        ("GET", f"{_NAME}/tasks", _tasks),
        ("GET", f"{_NAME}/tasks/{{task:int}}/status", _task_status),
        ("GET", f"{_NAME}/topics", _topics),
        ("PUT", f"{_NAME}/pause", _pause),
        ("PUT", f"{_NAME}/resume", _resume),
        ("PUT", f"{_NAME}/stop", _stop),
        ("PUT", f"{_NAME}/topics/{{topic}}/pause", _pause_topic),
        ("PUT", f"{_NAME}/topics/{{topic}}/resume", _resume_topic),
        ("POST", f"{_NAME}/restart", _restart),
        ("POST", f"{_NAME}/tasks/{{task:int}}/restart", _restart_task),
    )
]
