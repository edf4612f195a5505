"""The tasks that a connector makes of its configuration. All of its own code runs here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from semel.connect.herder.connector_calls import ask_connector
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.errors import ConfigError
from semel.settings import as_text

__all__ = ["MadeTasks", "make_tasks", "sent"]


class MadeTasks(NamedTuple):
    """What a connector makes of its configuration: its tasks, and their configurations as they are stored."""

    config: ConnectorConfig
    tasks: list[Mapping[str, Any]]
    stored: list[dict[str, str]]


def make_tasks(raw: Mapping[str, str], worker: WorkerConfig) -> MadeTasks:
    """Ask a connector for its tasks."""
    config = ConnectorConfig.parse(raw, worker)
    tasks = _tasks(config)
    class_name = ask_connector(config.name, "task_class_name", config.connector.task_class_name)
    return MadeTasks(config, tasks, [_stored(raw, config, class_name, task) for task in tasks])


def _tasks(config: ConnectorConfig) -> list[Mapping[str, Any]]:
    def ask() -> list[Mapping[str, Any]]:
        return [_named(task) for task in config.connector.tasks(config.own, config.max_tasks)]

    tasks = ask_connector(config.name, "tasks", ask)
    if len(tasks) > config.max_tasks:
        raise ConfigError(
            f"connector {config.name!r} has {len(tasks)} tasks, and tasks.max is {config.max_tasks}. Nothing was"
            " started. Raise tasks.max, or correct the connector.",
            tag="TOO_MANY_TASKS",
        )
    return tasks


def _named(task: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(task, Mapping) or not all(isinstance(name, str) for name in task):
        raise TypeError(f"a task's configuration is {type(task).__name__}, and must be a mapping of texts")
    return task


def _own_part(config: ConnectorConfig, task: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Divide a task's configuration into what it copies from the connector's, and its own part."""
    shared = [name for name, value in task.items() if name in config.own and config.own[name] == value]
    return shared, {name: value for name, value in task.items() if name not in shared}


def sent(config: ConnectorConfig, task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of its process. What it takes from the connector's configuration is read where it runs."""
    shared, own = _own_part(config, task)
    return {"shared": shared, "own": own}


def _stored(
    raw: Mapping[str, str], config: ConnectorConfig, class_name: str, task: Mapping[str, Any]
) -> dict[str, str]:
    """Return a task's configuration as Kafka Connect stores it: the connector's properties and its own part."""
    _, own = _own_part(config, task)
    return {
        **raw,
        "task.class": class_name,
        **{name: as_text(one) for name, one in own.items()},
    }
