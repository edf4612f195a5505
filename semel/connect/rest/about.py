"""``/``, ``/health``, ``/admin/loggers``, and ``/semel/tasks``, which is semel's own."""

from __future__ import annotations

import logging
from typing import Any

from starlette.routing import Route

from semel._version import __version__
from semel.connect.rest.calls import Call, endpoint
from semel.connect.rest.page import PAGE
from semel.errors import ConfigError
from semel.web.calls import Answer

__all__ = ["ROUTES"]

#: Kafka's names of levels, and Python's.
_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 1,
}


def _root(call: Call) -> Answer:
    return Answer(body={"version": __version__, "commit": "semel", "kafka_cluster_id": call.worker.cluster_id})


def _health(call: Call) -> Answer:
    """Say whether it has started (KIP-1017)."""
    if not call.worker.begun.is_set():
        return Answer(503, {"status": "starting", "message": "Worker is still starting up."})
    text = "Worker has completed startup and is ready to handle requests."
    return Answer(body={"status": "healthy", "message": text})


def _measured(call: Call) -> Answer:
    return Answer(body=call.herder.measured())


def _shown(name: str) -> dict[str, Any]:
    level = logging.getLogger(name).getEffectiveLevel()
    known = next((word for word, number in _LEVELS.items() if number >= level), "OFF")
    return {"level": "DEBUG" if known == "TRACE" else known, "last_modified": None}


def _names() -> list[str]:
    return sorted(name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "semel")


def _loggers(_: Call) -> Answer:
    return Answer(body={name: _shown(name) for name in _names()})


def _logger(call: Call) -> Answer:
    name = call.path["logger"]
    if name not in _names():
        raise ConfigError(f"Logger {name:.200} not found. GET /admin/loggers lists them.", tag="LOGGER_UNKNOWN")
    return Answer(body=_shown(name))


def _put_logger(call: Call) -> Answer:
    name, level = call.path["logger"], call.object("Map").get("level")
    if level is None:
        raise ConfigError("Desired 'level' parameter was not specified in request.", tag="REQUEST")
    if str(level).upper() not in _LEVELS:
        raise ConfigError(
            f"invalid log level '{level!s:.100}'. Give one of {', '.join(_LEVELS)}.", tag="LOGGER_UNKNOWN"
        )
    chosen = [one for one in _names() if one == name or one.startswith(f"{name}.")] or [name]
    for one in chosen:
        logging.getLogger(one).setLevel(_LEVELS[str(level).upper()])
    return Answer(204) if call.query.get("scope", ["worker"])[-1] == "cluster" else Answer(body=chosen)


ROUTES = [
    Route("/", PAGE.or_else(endpoint(_root, everywhere=True)), methods=["GET"]),
    Route("/semel/tasks", endpoint(_measured), methods=["GET"]),
    Route("/health", endpoint(_health, everywhere=True), methods=["GET"]),
    Route("/admin/loggers", endpoint(_loggers, everywhere=True), methods=["GET"]),
    Route("/admin/loggers/{logger}", endpoint(_logger, everywhere=True), methods=["GET"]),
    Route("/admin/loggers/{logger}", endpoint(_put_logger, everywhere=True), methods=["PUT"]),
]
