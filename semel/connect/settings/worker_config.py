"""A worker's properties: Kafka Connect's names, checked as a whole.

What means nothing here is named once in a warning. What semel's Connect cannot do yet is refused by name, and so is
what is unknown, with the nearest known name.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from semel.config import ClientConfig
from semel.config_providers import Providers, resolve
from semel.connect.plugins import check_header_converter, converter, without_effect
from semel.connect.settings.clients import POLICIES
from semel.errors import ConfigError, Unsupported
from semel.settings import NOTHING, Setting, missing, read_settings
from semel.settings.unused import Names, warn_of_unused

__all__ = ["Listener", "WorkerConfig", "converter_options"]

_REPLICATION = Setting(int, None, 1, also=-1)
_TIMEOUT = Setting(int, 60_000, 1)
_POLICY = "connector.client.config.override.policy"
SETTINGS = {
    "group.id": Setting(str),
    "key.converter": Setting(str),
    "value.converter": Setting(str),
    "offset.storage.topic": Setting(str),
    "offset.storage.partitions": Setting(int, 25, 1),
    "offset.storage.replication.factor": _REPLICATION,
    "config.storage.topic": Setting(str, ""),
    "config.storage.replication.factor": _REPLICATION,
    "status.storage.topic": Setting(str, ""),
    "status.storage.partitions": Setting(int, 5, 1),
    "status.storage.replication.factor": _REPLICATION,
    "exactly.once.source.support": Setting(str, "disabled", one_of=("disabled", "preparing", "enabled")),
    "offset.flush.interval.ms": Setting(int, 60_000, 0),
    "task.shutdown.graceful.timeout.ms": Setting(int, 5_000, 0),
    "semel.connector.timeout.ms": _TIMEOUT,
    "session.timeout.ms": Setting(int, 10_000, 1),
    "rebalance.timeout.ms": _TIMEOUT,
    "heartbeat.interval.ms": Setting(int, 3_000, 1),
    "topic.creation.enable": Setting(bool, True),
    _POLICY: Setting(str, "All", one_of=tuple(name.title() for name in POLICIES)),
    "listeners": Setting(list, None),
    "rest.advertised.host.name": Setting(str, ""),
    "rest.advertised.port": Setting(int, None, 0, at_most=65_535),
    "rest.advertised.listener": Setting(str, "http"),
    "access.control.allow.origin": Setting(list, ()),
    "semel.programs.allowed": Setting(list, ()),
}
#: Settings of Kafka Connect's own workers: of a JVM, of its plugin loader, clients and rebalances.
_UNUSED = Names(
    """connect.protocol consumer. header.converter header.converter. inter.worker. metadata.recovery.strategy
    metric.reporters metrics.context. metrics.num.samples metrics.recording.level metrics.sample.window.ms
    offset.flush.timeout.ms plugin.discovery plugin.path scheduled.rebalance.max.delay.ms topic.tracking.allow.reset
    topic.tracking.enable worker.sync.timeout.ms worker.unsync.backoff.ms"""
)
_LATER = {
    "access.control.allow.methods": "Remove it, and put a proxy with it before a listener on 127.0.0.1.",
    "admin.listeners": "REST has one set of listeners. Remove it.",
    "offset.storage.file.filename": "Offsets are in Kafka: give offset.storage.topic.",
    "response.http.headers.config": "Remove it, and put a proxy with it before a listener on 127.0.0.1.",
    "rest.extension.classes": "They are Java classes. Remove it.",
}
#: Empty is what Kafka has by default.
_UNLESS_EMPTY = ("access.control.allow.methods", "response.http.headers.config")
_LATER_PREFIXES = ("config.storage.", "status.storage.", "offset.storage.", "rest.", "listeners.")
_CONVERTERS = ("key.converter.", "value.converter.")
_PRODUCER, _ADMIN = "producer.", "admin."
_LISTENER = re.compile(r"(?P<scheme>[a-z]+)://(?P<host>\[[0-9a-fA-F:]+\]|[^:/\[\]]*)(:(?P<port>\d{1,5}))?/?")
_DEFAULT_LISTENER = "http://127.0.0.1:8083"


@dataclass(frozen=True, slots=True)
class Listener:
    """An address on which REST listens. An empty host is every address of this machine."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The settings of a worker. ``client`` is for the worker itself, ``producer`` for its tasks.

    A replication of None is three, or as many as there are brokers. Without a config topic connectors are those of
    files, and those that REST is given last as long as the worker.
    """

    client: Mapping[str, str]
    producer: Mapping[str, str]
    #: For the admin client of connectors.
    admin: Mapping[str, str]
    #: Which properties of their clients connectors may override: all, none, principal.
    override_policy: str
    #: Whether connectors may have topics made.
    topic_creation: bool
    group_id: str
    offsets_topic: str
    offsets_partitions: int
    offsets_replication: int | None
    config_topic: str | None
    config_replication: int | None
    status_topic: str | None
    status_partitions: int
    status_replication: int | None
    key_converter: str
    value_converter: str
    #: What the worker's properties say to its converters, by ``key.converter.`` and ``value.converter.``.
    converters: Mapping[str, str]
    #: ``exactly.once.source.support``: disabled, preparing, enabled.
    support: str
    flush_interval_ms: int
    graceful_timeout_ms: int
    #: How long the driver waits for a connector's own code.
    connector_timeout_ms: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_ms: int
    listeners: tuple[Listener, ...]
    advertised: str
    origins: tuple[str, ...]
    #: Programs that connectors may run, as they name them.
    programs: tuple[str, ...]
    #: What variables in a connector's properties stand for.
    providers: Providers

    @property
    def exactly_once(self) -> bool:
        """True if tasks write in transactions. ``preparing`` counts as ``disabled``, because the leader always does."""
        return self.support == "enabled"

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> WorkerConfig:
        """Read a worker's properties.

        Raises :class:`ConfigError` for what is missing, unknown or wrong, :class:`Unsupported` for what is not there
        yet.
        """
        providers, given = resolve(properties)
        own = {name: given.pop(name).strip() for name in list(given) if name in SETTINGS}
        converters = {name: given.pop(name).strip() for name in list(given) if name.startswith(_CONVERTERS)}
        given = {name: value for name, value in given.items() if name not in _UNLESS_EMPTY or value.strip()}
        _refuse_later(given)
        header_options = converter_options(given, "header.converter")
        check_header_converter(given.get("header.converter", "SimpleHeaderConverter").strip(), header_options)
        unused = [name for name in given if name in _UNUSED]
        for setting in ("key.converter", "value.converter"):
            options = converter_options(converters, setting)
            unused += [f"{setting}.{option}" for option in without_effect(own.get(setting, ""), options)]
        warn_of_unused("the worker", unused)
        clients = {name: value for name, value in given.items() if name not in _UNUSED}
        if _POLICY in own:  # Kafka Connect takes the names of its classes too
            own[_POLICY] = own[_POLICY].rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy")
        values = read_settings(SETTINGS, own)
        _check_topics(values)
        _check_times(values)
        for setting in ("key.converter", "value.converter"):
            converter(own[setting], setting, converter_options(converters, setting))
        listeners = _listeners(values)
        client = {name: value for name, value in clients.items() if not name.startswith((_PRODUCER, _ADMIN))}
        return cls(
            client=_checked("", client, client),
            producer=_checked(_PRODUCER, client, clients),
            admin=_checked(_ADMIN, client, clients),
            override_policy=values[_POLICY].lower(),
            topic_creation=values["topic.creation.enable"],
            group_id=values["group.id"],
            offsets_topic=values["offset.storage.topic"],
            offsets_partitions=values["offset.storage.partitions"],
            offsets_replication=values["offset.storage.replication.factor"],
            config_topic=values["config.storage.topic"] or None,
            config_replication=values["config.storage.replication.factor"],
            status_topic=values["status.storage.topic"] or None,
            status_partitions=values["status.storage.partitions"],
            status_replication=values["status.storage.replication.factor"],
            key_converter=values["key.converter"],
            value_converter=values["value.converter"],
            converters=converters,
            support=values["exactly.once.source.support"],
            flush_interval_ms=values["offset.flush.interval.ms"],
            graceful_timeout_ms=values["task.shutdown.graceful.timeout.ms"],
            connector_timeout_ms=values["semel.connector.timeout.ms"],
            session_timeout_ms=values["session.timeout.ms"],
            rebalance_timeout_ms=values["rebalance.timeout.ms"],
            heartbeat_ms=values["heartbeat.interval.ms"],
            listeners=listeners,
            advertised=_advertised(values, listeners),
            providers=providers,
            origins=tuple(values["access.control.allow.origin"]),
            programs=tuple(values["semel.programs.allowed"]),
        )


def converter_options(given: Mapping[str, str], setting: str) -> dict[str, str]:
    """Return the options of the converter of ``key.converter`` or ``value.converter``."""
    return {name.removeprefix(f"{setting}."): value for name, value in given.items() if name.startswith(f"{setting}.")}


def _listeners(values: Mapping[str, Any]) -> tuple[Listener, ...]:
    """Return the listeners of REST. A worker of files alone opens no port by default."""
    default = [_DEFAULT_LISTENER] if values["config.storage.topic"] else []
    return tuple(map(_listener, default if values["listeners"] is None else values["listeners"]))


def _listener(text: str) -> Listener:
    found = _LISTENER.fullmatch(text)
    if found is not None and found["scheme"] == "https":
        raise Unsupported(
            f"listeners={text:.100} is not there yet: REST speaks http. {NOTHING} Put a proxy with TLS before a"
            " listener on 127.0.0.1.",
            tag="NOT_YET",
        )
    port = int(found["port"] or 8083) if found is not None else 0
    if found is None or found["scheme"] != "http" or port > 65_535:
        raise ConfigError(
            f"listeners={text:.100} is not an address. {NOTHING} Write it as http://127.0.0.1:8083.", tag="WRONG_VALUE"
        )
    return Listener(found["host"].strip("[]"), port)


def _advertised(values: Mapping[str, Any], listeners: tuple[Listener, ...]) -> str:
    """``host:port`` by which this worker is known: its worker_id."""
    if values["rest.advertised.listener"].lower() != "http":
        raise Unsupported(f"rest.advertised.listener must be http. {NOTHING} Remove it.", tag="NOT_YET")
    first = listeners[0] if listeners else Listener("127.0.0.1", 8083)
    everywhere = first.host in ("", "0.0.0.0", "::")
    host = values["rest.advertised.host.name"] or (socket.gethostname() if everywhere else first.host)
    port = values["rest.advertised.port"]
    return f"{host}:{first.port if port is None else port}"


def _check_topics(values: Mapping[str, Any]) -> None:
    names = [name for kind in ("offset", "config", "status") if (name := values[f"{kind}.storage.topic"])]
    for kind, other in (("config", "status"), ("status", "config")):
        if len(names) == 2 and not values[f"{kind}.storage.topic"]:
            remedy = f"Give both it and {other}.storage.topic, or neither: then connectors are those of files."
            raise missing(f"{kind}.storage.topic", remedy=remedy)
    if len(set(names)) < len(names):
        raise ConfigError(
            f"two of the worker's storage topics have one name. {NOTHING} Give each a name of its own.",
            tag="WRONG_VALUE",
        )


def _check_times(values: Mapping[str, Any]) -> None:
    if values["heartbeat.interval.ms"] >= values["session.timeout.ms"]:
        raise ConfigError(
            f"heartbeat.interval.ms={values['heartbeat.interval.ms']} is not below session.timeout.ms="
            f"{values['session.timeout.ms']}. {NOTHING} Lower it, to a third at most.",
            tag="WRONG_VALUE",
        )


def _checked(prefix: str, client: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a client: the worker's own, and over them those that begin with ``prefix``."""
    own = {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}
    properties = {**client, **own}
    ClientConfig.parse(properties, prefix, [*SETTINGS, *_UNUSED.exact, *_LATER])
    return properties


def _refuse_later(given: Mapping[str, str]) -> None:
    for name in given:
        if name in _LATER or name.startswith(_LATER_PREFIXES):
            todo = _LATER.get(name) or "Remove it."
            raise Unsupported(f"{name:.200} is not there yet. {NOTHING} {todo}", tag="NOT_YET")
