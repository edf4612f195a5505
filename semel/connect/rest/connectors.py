"""``/connectors``: create, look, configure, pause, resume, stop, restart, delete."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.routing import Route

from semel.connect.rest.calls import Call, endpoint
from semel.connect.stores.config_format import PAUSED, STARTED, STOPPED
from semel.errors import ConfigError
from semel.web.calls import Answer, BadBody, texts

__all__ = ["ROUTES"]

_REQUEST = "CreateConnectorRequest"
_TARGETS = {"RUNNING": STARTED, "PAUSED": PAUSED, "STOPPED": STOPPED}


def _list(call: Call) -> Answer:
    herder = call.herder
    wanted = call.query.get("expand")
    if not wanted:
        return Answer(body=herder.names)
    shown: dict[str, Any] = {}
    for name in herder.names:
        shown[name] = {}
        try:
            if "info" in wanted:
                shown[name]["info"] = herder.info(name)
            if "status" in wanted:
                shown[name]["status"] = herder.status(name)
        except ConfigError:  # it was deleted meanwhile, or has no state yet
            continue
    return Answer(body=shown)


def _create(call: Call) -> Answer:
    given = call.object(_REQUEST, ("name", "config", "initial_state"))
    config = {key: value or "" for key, value in texts(given.get("config"), _REQUEST).items()}
    name = str(given.get("name") or config.get("name", "")).strip()
    state = str(given.get("initial_state") or "RUNNING").upper()
    if state not in _TARGETS:
        raise BadBody(f"initial_state {state:.100} is none of {', '.join(_TARGETS)}")
    _check_name(name, config)
    made = call.herder.put(name, config, target=_TARGETS[state], create=True)
    place = f"{call.herder.config.rest.address}/connectors/{quote(name, safe='')}"
    return Answer(201, made.info, {"Location": place})


def _check_name(name: str, config: dict[str, str]) -> None:
    if config.get("name", name) != name:
        raise ConfigError(
            f"Connector name configuration ({config['name']:.200}) doesn't match connector name in the URL ({name}).",
            tag="REQUEST",
        )
    if not config.get("connector.class"):
        raise ConfigError(f"Connector config of {name} contains no connector type.", tag="REQUEST")


def _info(call: Call) -> Answer:
    return Answer(body=call.herder.info(call.name))


def _config(call: Call) -> Answer:
    return Answer(body=call.herder.info(call.name)["config"])


def _put_config(call: Call) -> Answer:
    config = {key: value or "" for key, value in texts(call.json("Map"), "Map").items()}
    _check_name(call.name, config)
    new, info = call.herder.put(call.name, config)
    place = f"{call.herder.config.rest.address}/connectors/{quote(call.name, safe='')}"
    return Answer(201 if new else 200, info, {"Location": place} if new else None)


def _patch_config(call: Call) -> Answer:
    changes = texts(call.json("Map"), "Map")
    name = changes.get("name", call.name)
    if name != call.name:
        _check_name(call.name, {"name": str(name), "connector.class": "?"})
    return Answer(body=call.herder.patch(call.name, changes).info)


def _delete(call: Call) -> Answer:
    call.herder.delete(call.name)
    return Answer(204)


def _status(call: Call) -> Answer:
    return Answer(body=call.herder.status(call.name))


def _tasks(call: Call) -> Answer:
    return Answer(body=call.herder.tasks(call.name))


def _task_status(call: Call) -> Answer:
    return Answer(body=call.herder.task_status(call.name, int(call.path["task"])))


def _restart_task(call: Call) -> Answer:
    call.herder.restart_task(call.name, int(call.path["task"]))
    return Answer(204)


def _restart(call: Call) -> Answer:
    include_tasks, only_failed = call.flag("includeTasks"), call.flag("onlyFailed")
    shown = call.herder.restart(call.name, include_tasks=include_tasks, only_failed=only_failed)
    return Answer(202, shown) if include_tasks or only_failed else Answer(204)


def _pause(call: Call) -> Answer:
    call.herder.set_target(call.name, PAUSED)
    return Answer(202)


def _resume(call: Call) -> Answer:
    call.herder.set_target(call.name, STARTED)
    return Answer(202)


def _stop(call: Call) -> Answer:
    call.herder.set_target(call.name, STOPPED)
    return Answer(204)


def _topics(call: Call) -> Answer:
    return Answer(body={call.name: {"topics": list(call.herder.statuses.topics.get(call.name, {}))}})


def _reset_topics(call: Call) -> Answer:
    call.herder.reset_topics(call.name)
    return Answer(202)


_NAME = "/connectors/{name}"
ROUTES = [
    Route(path, endpoint(function), methods=[method])
    for method, path, function in (
        ("GET", "/connectors", _list),
        ("POST", "/connectors", _create),
        ("GET", _NAME, _info),
        ("DELETE", _NAME, _delete),
        ("GET", f"{_NAME}/config", _config),
        ("PUT", f"{_NAME}/config", _put_config),
        ("PATCH", f"{_NAME}/config", _patch_config),
        ("GET", f"{_NAME}/status", _status),
        ("GET", f"{_NAME}/tasks", _tasks),
        ("GET", f"{_NAME}/tasks/{{task:int}}/status", _task_status),
        ("POST", f"{_NAME}/tasks/{{task:int}}/restart", _restart_task),
        ("POST", f"{_NAME}/restart", _restart),
        ("PUT", f"{_NAME}/pause", _pause),
        ("PUT", f"{_NAME}/resume", _resume),
        ("PUT", f"{_NAME}/stop", _stop),
        ("GET", f"{_NAME}/topics", _topics),
        ("PUT", f"{_NAME}/topics/reset", _reset_topics),
    )
]
