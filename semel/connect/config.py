"""A worker's and a connector's properties: Kafka Connect's names, checked as a whole.

What means nothing here is named once in a warning. What semel's Connect cannot do yet is refused by name, and so is
what is unknown, with the nearest known name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import javaproperties

from semel.config import ClientConfig, nearest
from semel.connect.api import REQUIRED, Setting, SourceConnector
from semel.connect.converters import Converter
from semel.connect.plugins import connector_class, converter
from semel.errors import ConfigError, SemelError, Unsupported

__all__ = ["ConnectorConfig", "WorkerConfig", "ask_connector", "read_properties"]

T = TypeVar("T")

log = logging.getLogger("semel.connect")

_NOTHING = "Nothing was read or written."

#: Settings of Kafka Connect's own workers that change nothing here: of a JVM, of its plugin loader and rebalances.
_WORKER_IGNORED = frozenset(
    """access.control.allow.methods access.control.allow.origin connect.protocol heartbeat.interval.ms metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms plugin.discovery plugin.path
    rebalance.timeout.ms response.http.headers.config scheduled.rebalance.max.delay.ms session.timeout.ms
    topic.tracking.allow.reset topic.tracking.enable worker.sync.timeout.ms worker.unsync.backoff.ms""".split()
)
_WORKER_IGNORED_PREFIXES = ("inter.worker.", "consumer.", "admin.", "metrics.context.")
_WORKER_LATER = {
    "config.storage.topic": "Connectors come from the files of the command line. Remove it.",
    "status.storage.topic": "States are printed. Remove it.",
    "listeners": "There is no REST yet: connectors come from the files of the command line. Remove it.",
    "admin.listeners": "There is no REST yet. Remove it.",
    "config.providers": "Write the values themselves, or fill the file in before the start.",
    "header.converter": "Records have no headers of a connector's own yet. Remove it.",
    "offset.storage.file.filename": "Offsets are in Kafka: give offset.storage.topic.",
    "rest.extension.classes": "They are Java classes, and there is no REST yet. Remove it.",
}
_WORKER_LATER_PREFIXES = ("config.storage.", "status.storage.", "rest.", "listeners.", "config.providers.")
_WORKER_OWN = frozenset(
    """group.id offset.storage.topic offset.storage.partitions offset.storage.replication.factor key.converter
    value.converter exactly.once.source.support offset.flush.interval.ms task.shutdown.graceful.timeout.ms
    topic.creation.enable connector.client.config.override.policy""".split()
)
#: Given with converters in every file that Kafka ships; text and bytes have no schema to enable.
_OF_CONVERTERS = ("key.converter.schemas.enable", "value.converter.schemas.enable")
_PRODUCER = "producer."

_CONNECTOR_IGNORED = frozenset({"tasks.max.enforce"})
_CONNECTOR_LATER = {
    "transforms": "Remove it, or transform the records in the connector.",
    "predicates": "Remove it.",
    "header.converter": "Remove it.",
    "offsets.storage.topic": "Offsets are in the worker's offset.storage.topic. Remove it.",
    "transaction.boundary.interval.ms": "Each poll is a transaction. Remove it.",
    "config.action.reload": "Remove it.",
    "topic.creation.groups": "Create the topic before the start. Remove it.",
}
_CONNECTOR_LATER_PREFIXES = (
    "transforms.",
    "predicates.",
    "errors.",
    "topic.creation.",
    "producer.override.",
    "consumer.override.",
    "admin.override.",
)
_CONNECTOR_OWN = frozenset(
    "name connector.class tasks.max key.converter value.converter exactly.once.support transaction.boundary".split()
)


def read_properties(path: Path) -> dict[str, str]:
    """Read a file of properties in Java's form. Raises :class:`ConfigError`, with none of its text, for another one."""
    try:
        return dict(javaproperties.loads(path.read_bytes().decode()))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} cannot be read: {type(error).__name__}. {_NOTHING} Correct the path, or the file.",
            tag="PROPERTIES",
        ) from None


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What a worker works by. ``client`` is for the worker itself, ``producer`` for its tasks."""

    client: Mapping[str, str]
    producer: Mapping[str, str]
    group_id: str
    offsets_topic: str
    offsets_partitions: int
    #: None is three, or as many as there are brokers.
    offsets_replication: int | None
    key_converter: str
    value_converter: str
    exactly_once: bool
    flush_interval_ms: int
    graceful_timeout_ms: int

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> WorkerConfig:
        """Read a worker's properties.

        Raises :class:`ConfigError` for what is missing, unknown or wrong, :class:`Unsupported` for what is not there
        yet.
        """
        given = dict(properties)
        own = {name: given.pop(name).strip() for name in list(given) if name in _WORKER_OWN}
        for name in _OF_CONVERTERS:
            given.pop(name, None)
        _check_later(given, _WORKER_LATER, _WORKER_LATER_PREFIXES, "")
        ignored = [name for name in given if name in _WORKER_IGNORED or name.startswith(_WORKER_IGNORED_PREFIXES)]
        for name in ignored:
            del given[name]
        if ignored:
            log.warning("these properties of the worker change nothing here: %s", ", ".join(sorted(ignored)))
        producer = {name.removeprefix(_PRODUCER): given.pop(name) for name in list(given) if name.startswith(_PRODUCER)}
        config = cls(
            client=given,
            producer={**given, **producer},
            group_id=_required(own, "group.id"),
            offsets_topic=_required(own, "offset.storage.topic"),
            offsets_partitions=_number(own, "offset.storage.partitions", 25, 1),
            offsets_replication=_number(own, "offset.storage.replication.factor", 0, -1) or None,
            key_converter=_required(own, "key.converter"),
            value_converter=_required(own, "value.converter"),
            exactly_once=_support(own),
            flush_interval_ms=_number(own, "offset.flush.interval.ms", 60_000, 0),
            graceful_timeout_ms=_number(own, "task.shutdown.graceful.timeout.ms", 5_000, 0),
        )
        converter(config.key_converter, "key.converter")
        converter(config.value_converter, "value.converter")
        for name, client in (("", config.client), (_PRODUCER, config.producer)):
            _check_client(name, client)
        return config


def _check_client(prefix: str, properties: Mapping[str, str]) -> None:
    try:
        ClientConfig.parse(properties)
    except SemelError as error:
        if error.tag != "UNKNOWN_OPTION":
            raise
        known = [*_WORKER_OWN, *_WORKER_IGNORED, *_WORKER_LATER]
        wrong = next((name for name in properties if nearest(name, known) and f"{name:.200}" in error.message), None)
        if wrong is None:
            raise
        raise ConfigError(
            f"{prefix}{wrong:.200} is not a known property of a worker{nearest(wrong, known)} {_NOTHING} Correct or"
            " remove it.",
            tag="UNKNOWN_OPTION",
        ) from None


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """What a connector was told. ``own`` are the settings of its class, with their defaults."""

    name: str
    class_name: str
    connector: SourceConnector
    max_tasks: int
    key: Converter
    value: Converter
    own: Mapping[str, Any]

    @classmethod
    def parse(cls, properties: Mapping[str, str], worker: WorkerConfig) -> ConnectorConfig:
        """Read a connector's properties. Raises as :meth:`WorkerConfig.parse` does, and what its class raises."""
        given = {name: value for name, value in properties.items() if name not in _OF_CONVERTERS}
        name = _required(given, "name")
        where = f"connector {name!r}: "
        connector = ask_connector(name, "its constructor", connector_class(_required(given, "connector.class", where)))
        settings = {key: one if isinstance(one, Setting) else Setting(one) for key, one in connector.config.items()}
        rest = {key: value for key, value in given.items() if key not in settings and key not in _CONNECTOR_OWN}
        _check_later(rest, _CONNECTOR_LATER, _CONNECTOR_LATER_PREFIXES, where)
        for key in rest:
            if key not in _CONNECTOR_IGNORED:
                hint = nearest(key, [*settings, *_CONNECTOR_OWN, *_CONNECTOR_LATER]) or "."
                raise ConfigError(
                    f"{where}{key:.200} is not a known property{hint} {_NOTHING} Correct or remove it.",
                    tag="UNKNOWN_OPTION",
                )
        own = {key: _own_value(given, key, setting, where) for key, setting in settings.items()}
        _check_boundary(given, where)
        _check_support(given, connector, own, worker, where)
        return cls(
            name=name,
            class_name=given["connector.class"].strip(),
            connector=connector,
            max_tasks=_number(given, "tasks.max", 1, 1),
            key=converter(given.get("key.converter", worker.key_converter).strip(), "key.converter"),
            value=converter(given.get("value.converter", worker.value_converter).strip(), "value.converter"),
            own=own,
        )


def ask_connector(name: str, what: str, ask: Callable[[], T]) -> T:
    """Call a connector's own code. Raises :class:`ConfigError`, with what it raised as the cause."""
    try:
        return ask()
    except SemelError:
        raise
    except Exception as error:
        raise ConfigError(
            f"connector {name!r}: {what} raised {type(error).__name__}: {error}. Nothing was started. Correct its"
            " properties, or the connector.",
            tag="CONNECTOR_RAISED",
        ) from error


def _check_later(given: Iterable[str], later: Mapping[str, str], prefixes: tuple[str, ...], where: str) -> None:
    for name in given:
        if name in later or name.startswith(prefixes):
            todo = later.get(name) or "Remove it."
            raise Unsupported(f"{where}{name:.200} is not there yet. {_NOTHING} {todo}", tag="NOT_YET")


def _required(given: Mapping[str, str], name: str, where: str = "") -> str:
    value = given.get(name, "").strip()
    if not value:
        raise ConfigError(f"{where}{name} is missing. {_NOTHING} Give it, as for Kafka Connect.", tag="MISSING_OPTION")
    return value


def _number(given: Mapping[str, str], name: str, default: int, least: int) -> int:
    return int(_convert(name, given[name].strip(), Setting(int, at_least=least), "")) if name in given else default


def _own_value(given: Mapping[str, str], name: str, setting: Setting, where: str) -> Any:
    if name in given:
        return _convert(name, given[name].strip(), setting, where)
    if setting.default is REQUIRED:
        raise ConfigError(
            f"{where}{name} is missing, and this connector needs it. {_NOTHING} Give it.", tag="MISSING_OPTION"
        )
    return setting.default


def _convert(name: str, text: str, setting: Setting, where: str) -> Any:
    try:
        value = _KINDS[setting.kind](text)
    except (ValueError, KeyError):
        raise ConfigError(
            f"{where}{name}={text:.200} is not a value of type {setting.kind.__name__}. {_NOTHING} Correct it.",
            tag="WRONG_VALUE",
        ) from None
    if setting.at_least is not None and value < setting.at_least:
        raise ConfigError(
            f"{where}{name}={text:.200} is below {setting.at_least}. {_NOTHING} Raise it.", tag="WRONG_VALUE"
        )
    return value


_KINDS: dict[type, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    bool: lambda text: {"true": True, "false": False}[text.lower()],
}


def _support(own: Mapping[str, str]) -> bool:
    value = own.get("exactly.once.source.support", "disabled")
    if value == "preparing":
        raise Unsupported(
            f"exactly.once.source.support=preparing is not there yet: this worker stands alone. {_NOTHING} Give"
            " enabled.",
            tag="NOT_YET",
        )
    if value not in ("disabled", "enabled"):
        raise ConfigError(
            f"exactly.once.source.support={value:.100} is none of disabled, preparing, enabled. {_NOTHING} Give one of"
            " them.",
            tag="WRONG_VALUE",
        )
    return value == "enabled"


def _check_boundary(given: Mapping[str, str], where: str) -> None:
    boundary = given.get("transaction.boundary", "poll").strip().lower()
    if boundary in ("interval", "connector"):
        raise Unsupported(
            f"{where}transaction.boundary={boundary} is not there yet. {_NOTHING} Use poll: each poll is a"
            " transaction.",
            tag="NOT_YET",
        )
    _check_choice("transaction.boundary", boundary, ("poll", "connector", "interval"), where)


def _check_choice(name: str, value: str, choices: tuple[str, ...], where: str) -> None:
    if value not in choices:
        raise ConfigError(
            f"{where}{name}={value:.100} is wrong: String must be one of (case insensitive): {', '.join(choices)}."
            f" {_NOTHING} Give one of them.",
            tag="WRONG_VALUE",
        )


def _check_support(
    given: Mapping[str, str], connector: SourceConnector, own: Mapping[str, Any], worker: WorkerConfig, where: str
) -> None:
    """Refuse ``exactly.once.support=required`` where nobody promises it (KIP-618's preflight)."""
    wanted = given.get("exactly.once.support", "requested").strip().lower()
    _check_choice("exactly.once.support", wanted, ("requested", "required"), where)
    if wanted != "required":
        return
    if not worker.exactly_once:
        why = (
            "this worker does not have exactly-once source support enabled. {} Set"
            " exactly.once.source.support=enabled for the worker."
        )
    else:
        supported = ask_connector(given["name"], "exactly_once_support", lambda: connector.exactly_once_support(own))
        if supported:
            return
        why = (
            "the connector does not support exactly-once with this configuration. {} Change it, or use requested."
            if supported is False
            else "the connector does not implement the API for preflight validation of exactly-once support. {} Consult"
            " its documentation; where that promises it, use requested."
        )
    raise ConfigError(f"{where}exactly.once.support=required, but {why.format(_NOTHING)}", tag="EXACTLY_ONCE_SUPPORT")
