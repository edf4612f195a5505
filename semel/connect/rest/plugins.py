"""``/connector-plugins``: classes, their settings, and what is wrong with a configuration."""

from __future__ import annotations

from starlette.routing import Route

from semel._version import __version__
from semel.connect.api import Setting
from semel.connect.connector_config import Examination, ask_connector
from semel.connect.definitions import COMMON, own_definition
from semel.connect.plugins import connector_class, plugins
from semel.connect.rest.calls import Answer, Call, endpoint, texts
from semel.errors import ConfigError, SemelError

__all__ = ["ROUTES"]


def _list(call: Call) -> Answer:
    only = call.flag("connectorsOnly", default=True)
    shown = [
        {"class": name, "type": kind, "version": __version__}
        for kind, name in plugins()
        if kind == "source" or not only
    ]
    return Answer(body=shown)


def _config(call: Call) -> Answer:
    name = call.path["plugin"]
    try:
        made = ask_connector(name, "its constructor", connector_class(name))
    except SemelError as error:
        raise ConfigError(f"Unknown plugin {name}. {error.message}", tag="PLUGIN_UNKNOWN") from error
    settings = {key: one if isinstance(one, Setting) else Setting(one) for key, one in made.config.items()}
    own = [own_definition(key, setting) for key, setting in settings.items()]
    return Answer(body=[definition.shown() for definition in (*own, *COMMON)])


def _validate(call: Call) -> Answer:
    config = {key: value or "" for key, value in texts(call.json("Map"), "Map").items()}
    name = call.path["plugin"]
    given = config.get("connector.class", "")
    if not given:
        raise ConfigError("Connector config contains no connector type.", tag="INTERNAL")
    if not _same(name, given):
        raise ConfigError(
            f"Included connector type {given:.200} does not match request type {name:.200}.", tag="REQUEST"
        )
    examination = Examination(config, call.worker.config)
    groups = list(dict.fromkeys(one.group for one in examination.definitions if one.group))
    shown = {
        "name": given,
        "error_count": len({problem.setting for problem in examination.problems}),
        "groups": groups,
        "configs": examination.values(),
    }
    return Answer(body=shown)


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
