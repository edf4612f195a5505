"""``/connector-plugins``: classes, their settings, and what is wrong with a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.routing import Route

from semel.connect.herder.connector_calls import ask_connector, within
from semel.connect.plugins import connector_class, plugins
from semel.connect.rest.calls import Call, endpoint
from semel.connect.settings.connector_config import ConnectorConfigParser, settings_of
from semel.connect.settings.definitions import COMMON, SINK, Definition
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.sink_api import SinkConnector
from semel.errors import ConfigError, SemelError
from semel.web.calls import Answer, texts

__all__ = ["ROUTES"]


def _list(call: Call) -> Answer:
    only = call.flag("connectorsOnly", default=True)
    shown = [
        {"class": one.name, "type": one.kind, "version": one.version}
        for one in plugins()
        if one.kind in ("source", "sink") or not only
    ]
    return Answer(body=shown)


def _config(call: Call) -> Answer:
    name = call.path["plugin"]
    return Answer(body=within(call.worker.config.connector_timeout_ms, name, lambda: _definitions(name)))


def _definitions(name: str) -> list[dict[str, Any]]:
    try:
        found = ask_connector(name, "its module", lambda: connector_class(name))
        settings = settings_of(name, ask_connector(name, "its constructor", lambda: found()))
        shared = SINK if issubclass(found, SinkConnector) else COMMON
    except SemelError as error:
        raise ConfigError(f"Unknown plugin {name}. {error.message}", tag="PLUGIN_UNKNOWN") from error
    own = [Definition(key, setting) for key, setting in settings.items()]
    return [definition.shown() for definition in (*own, *shared)]


def _validate(call: Call) -> Answer:
    config = {key: value or "" for key, value in texts(call.json("Map"), "Map").items()}
    worker, given = call.worker.config, config.get("connector.class", "")
    if not given:
        raise ConfigError("Connector config contains no connector type.", tag="MISSING_OPTION")
    name = config.get("name", "")
    shown = within(worker.connector_timeout_ms, name, lambda: _examined(call.path["plugin"], given, config, worker))
    return Answer(body=shown)


def _examined(name: str, given: str, config: Mapping[str, str], worker: WorkerConfig) -> dict[str, Any]:
    if not _same(name, given):
        raise ConfigError(
            f"Included connector type {given:.200} does not match request type {name:.200}.", tag="REQUEST"
        )
    parser = ConnectorConfigParser(config, worker)
    groups = list(dict.fromkeys(one.group for one in parser.definitions if one.group))
    return {
        "name": given,
        "error_count": len({problem.setting for problem in parser.problems}),
        "groups": groups,
        "configs": parser.values(),
    }


def _same(name: str, other: str) -> bool:
    try:
        return connector_class(name) is connector_class(other)
    except SemelError:
        return name == other


ROUTES = [
    Route("/connector-plugins", endpoint(_list, everywhere=True), methods=["GET"]),
    Route("/connector-plugins/{plugin}/config", endpoint(_config, everywhere=True), methods=["GET"]),
    Route("/connector-plugins/{plugin}/config/validate", endpoint(_validate, everywhere=True), methods=["PUT"]),
]
