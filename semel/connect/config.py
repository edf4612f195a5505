"""A worker's properties: Kafka Connect's names, checked as a whole.

What means nothing here is named once in a warning. What semel's Connect cannot do yet is refused by name, and so is
what is unknown, with the nearest known name.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import javaproperties

from semel.config import ClientConfig, nearest
from semel.config_providers import Providers, resolve
from semel.connect.clients import POLICIES
from semel.connect.plugins import check_header_converter, converter, without_effect
from semel.errors import ConfigError, SemelError, Unsupported

__all__ = ["NOTHING", "Listener", "WorkerConfig", "check_later", "converter_options", "read_properties"]

log = logging.getLogger("semel.connect")

NOTHING = "Nothing was read or written."

#: Settings of Kafka Connect's own workers that change nothing here: of a JVM, of its plugin loader, clients and
#: rebalances.
_IGNORED = frozenset(
    """connect.protocol header.converter metadata.recovery.strategy metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms offset.flush.timeout.ms plugin.discovery plugin.path
    scheduled.rebalance.max.delay.ms
    topic.tracking.allow.reset topic.tracking.enable worker.sync.timeout.ms worker.unsync.backoff.ms""".split()
)
_IGNORED_PREFIXES = (
    "inter.worker.",
    "consumer.",
    "metrics.context.",
    "header.converter.",
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
_OWN = frozenset(
    """session.timeout.ms rebalance.timeout.ms heartbeat.interval.ms
    group.id offset.storage.topic offset.storage.partitions offset.storage.replication.factor key.converter
    value.converter exactly.once.source.support offset.flush.interval.ms task.shutdown.graceful.timeout.ms
    topic.creation.enable connector.client.config.override.policy config.storage.topic
    config.storage.replication.factor status.storage.topic status.storage.partitions status.storage.replication.factor
    listeners rest.advertised.host.name rest.advertised.port rest.advertised.listener semel.programs.allowed
    semel.connector.timeout.ms access.control.allow.origin""".split()
)
_CONVERTERS = ("key.converter.", "value.converter.")
_PRODUCER, _ADMIN = "producer.", "admin."
_LISTENER = re.compile(r"(?P<scheme>[a-z]+)://(?P<host>\[[0-9a-fA-F:]+\]|[^:/\[\]]*)(:(?P<port>\d{1,5}))?/?")
_DEFAULT_LISTENER = "http://127.0.0.1:8083"


def read_properties(path: Path) -> dict[str, str]:
    """Read a file of properties in Java's form. Raises :class:`ConfigError`, with none of its text, for another one."""
    try:
        return dict(javaproperties.loads(path.read_bytes().decode()))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} cannot be read: {type(error).__name__}. {NOTHING} Correct the path, or the file.",
            tag="PROPERTIES",
        ) from None


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
        own = {name: given.pop(name).strip() for name in list(given) if name in _OWN}
        converters = {name: given.pop(name).strip() for name in list(given) if name.startswith(_CONVERTERS)}
        for name in _UNLESS_EMPTY:
            if not given.get(name, "").strip():
                given.pop(name, None)
        check_later(given, _LATER, _LATER_PREFIXES, "")
        header_options = converter_options(given, "header.converter")
        check_header_converter(given.get("header.converter", "SimpleHeaderConverter").strip(), header_options)
        ignored = [name for name in given if name in _IGNORED or name.startswith(_IGNORED_PREFIXES)]
        for name in ignored:
            del given[name]
        for setting in ("key.converter", "value.converter"):
            options = converter_options(converters, setting)
            ignored += [f"{setting}.{option}" for option in without_effect(own.get(setting, ""), options)]
        if ignored:
            log.warning("these properties of the worker change nothing here: %s", ", ".join(sorted(ignored)))
        producer = {name.removeprefix(_PRODUCER): given.pop(name) for name in list(given) if name.startswith(_PRODUCER)}
        admin = {name.removeprefix(_ADMIN): given.pop(name) for name in list(given) if name.startswith(_ADMIN)}
        listeners = _listeners(own)
        config = cls(
            client=given,
            producer={**given, **producer},
            admin={**given, **admin},
            override_policy=_policy(own),
            topic_creation=_flag(own, "topic.creation.enable", default=True),
            group_id=_required(own, "group.id"),
            offsets_topic=_required(own, "offset.storage.topic"),
            offsets_partitions=_number(own, "offset.storage.partitions", 25, 1),
            offsets_replication=_replication(own, "offset"),
            config_topic=_storage_topic(own, "config", "status"),
            config_replication=_replication(own, "config"),
            status_topic=_storage_topic(own, "status", "config"),
            status_partitions=_number(own, "status.storage.partitions", 5, 1),
            status_replication=_replication(own, "status"),
            key_converter=_required(own, "key.converter"),
            value_converter=_required(own, "value.converter"),
            converters=converters,
            support=_support(own),
            flush_interval_ms=_number(own, "offset.flush.interval.ms", 60_000, 0),
            graceful_timeout_ms=_number(own, "task.shutdown.graceful.timeout.ms", 5_000, 0),
            connector_timeout_ms=_number(own, "semel.connector.timeout.ms", 60_000, 1),
            session_timeout_ms=_number(own, "session.timeout.ms", 10_000, 1),
            rebalance_timeout_ms=_number(own, "rebalance.timeout.ms", 60_000, 1),
            heartbeat_ms=_number(own, "heartbeat.interval.ms", 3_000, 1),
            listeners=listeners,
            advertised=_advertised(own, listeners),
            providers=providers,
            origins=_listed(own, "access.control.allow.origin"),
            programs=_listed(own, "semel.programs.allowed"),
        )
        for setting in ("key.converter", "value.converter"):
            converter(own[setting], setting, converter_options(converters, setting))
        _check_topics_differ(config)
        if config.heartbeat_ms >= config.session_timeout_ms:
            raise ConfigError(
                f"heartbeat.interval.ms={config.heartbeat_ms} is not below session.timeout.ms="
                f"{config.session_timeout_ms}. {NOTHING} Lower it, to a third at most.",
                tag="WRONG_VALUE",
            )
        for name, client in (("", config.client), (_PRODUCER, config.producer), (_ADMIN, config.admin)):
            _check_client(name, client)
        return config


def converter_options(given: Mapping[str, str], setting: str) -> dict[str, str]:
    """Return the options of the converter of ``key.converter`` or ``value.converter``."""
    return {name.removeprefix(f"{setting}."): value for name, value in given.items() if name.startswith(f"{setting}.")}


def _listed(own: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, own.get(name, "").split(","))))


def _listeners(own: Mapping[str, str]) -> tuple[Listener, ...]:
    """Return the listeners of REST. A worker of files alone opens no port by default."""
    default = _DEFAULT_LISTENER if own.get("config.storage.topic") else ""
    return tuple(_listener(text.strip()) for text in own.get("listeners", default).split(",") if text.strip())


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


def _advertised(own: Mapping[str, str], listeners: tuple[Listener, ...]) -> str:
    """``host:port`` by which this worker is known: its worker_id."""
    if own.get("rest.advertised.listener", "http").lower() != "http":
        raise Unsupported(f"rest.advertised.listener must be http. {NOTHING} Remove it.", tag="NOT_YET")
    first = listeners[0] if listeners else Listener("127.0.0.1", 8083)
    everywhere = first.host in ("", "0.0.0.0", "::")
    host = own.get("rest.advertised.host.name") or (socket.gethostname() if everywhere else first.host)
    return f"{host}:{_number(own, 'rest.advertised.port', first.port, 0)}"


def _storage_topic(own: Mapping[str, str], kind: str, other: str) -> str | None:
    name = own.get(f"{kind}.storage.topic")
    if not name and own.get(f"{other}.storage.topic"):
        raise ConfigError(
            f"{kind}.storage.topic is missing, and {other}.storage.topic is given. {NOTHING} Give both, or neither:"
            " then connectors are those of files.",
            tag="MISSING_OPTION",
        )
    return name or None


def _replication(own: Mapping[str, str], kind: str) -> int | None:
    found = _number(own, f"{kind}.storage.replication.factor", 0, -1)
    return found or None


def _check_topics_differ(config: WorkerConfig) -> None:
    names = [name for name in (config.offsets_topic, config.config_topic, config.status_topic) if name]
    if len(set(names)) < len(names):
        raise ConfigError(
            f"two of the worker's storage topics have one name. {NOTHING} Give each a name of its own.",
            tag="WRONG_VALUE",
        )


def _check_client(prefix: str, properties: Mapping[str, str]) -> None:
    try:
        ClientConfig.parse(properties)
    except SemelError as error:
        if error.tag != "UNKNOWN_OPTION":
            raise
        known = [*_OWN, *_IGNORED, *_LATER]
        wrong = next((name for name in properties if nearest(name, known) and f"{name:.200}" in error.message), None)
        if wrong is None:
            raise
        raise ConfigError(
            f"{prefix}{wrong:.200} is not a known property of a worker{nearest(wrong, known)} {NOTHING} Correct or"
            " remove it.",
            tag="UNKNOWN_OPTION",
        ) from None


def check_later(given: Iterable[str], later: Mapping[str, str], prefixes: tuple[str, ...], where: str) -> None:
    """Raise :class:`Unsupported` for what is known and not there yet."""
    for name in given:
        if name in later or name.startswith(prefixes):
            todo = later.get(name) or "Remove it."
            raise Unsupported(f"{where}{name:.200} is not there yet. {NOTHING} {todo}", tag="NOT_YET")


def _required(given: Mapping[str, str], name: str) -> str:
    value = given.get(name, "").strip()
    if not value:
        raise ConfigError(f"{name} is missing. {NOTHING} Give it, as for Kafka Connect.", tag="MISSING_OPTION")
    return value


def _number(given: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = given.get(name, str(default))
    try:
        value = int(text)
    except ValueError:
        raise ConfigError(
            f"{name}={text:.200} is not a value of type int. {NOTHING} Correct it.", tag="WRONG_VALUE"
        ) from None
    if value < least:
        raise ConfigError(f"{name}={text:.200} is below {least}. {NOTHING} Raise it.", tag="WRONG_VALUE")
    return value


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name}={text:.100} is neither true nor false. {NOTHING} Correct it.", tag="WRONG_VALUE")
    return text == "true"


def _policy(own: Mapping[str, str]) -> str:
    name = "connector.client.config.override.policy"
    given = own.get(name, "All").rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy").lower()
    if given not in POLICIES:
        raise ConfigError(
            f"{name}={own[name]:.200} is none of All, None, Principal. {NOTHING} Give one of them.", tag="WRONG_VALUE"
        )
    return given


def _support(own: Mapping[str, str]) -> str:
    value = own.get("exactly.once.source.support", "disabled")
    if value not in ("disabled", "preparing", "enabled"):
        raise ConfigError(
            f"exactly.once.source.support={value:.100} is none of disabled, preparing, enabled. {NOTHING} Give one of"
            " them.",
            tag="WRONG_VALUE",
        )
    return value
