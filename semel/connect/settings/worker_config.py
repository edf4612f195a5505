"""A worker's properties: Kafka Connect's names, checked as a whole.

What means nothing here is named once in a warning. What semel's Connect cannot do yet is refused by name, and so is
what is unknown, with the nearest known name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semel.config import ClientConfig
from semel.connect.plugins import check_header_converter, converter, without_effect
from semel.connect.settings.clients import POLICIES, consumer_client
from semel.errors import ConfigError
from semel.settings import NOTHING, missing, nearest, not_yet, unknown
from semel.settings.fields import read_fields, setting, table_of
from semel.settings.providers import Providers, resolve
from semel.settings.unused import Names, warn_of_unused
from semel.web.rest_config import HTTPS, REST_SETTINGS, RestConfig

__all__ = ["WorkerConfig", "converter_options"]

_POLICY = "connector.client.config.override.policy"
#: Settings of Kafka Connect's own workers: of a JVM, of its plugin loader, clients and rebalances.
_UNUSED = Names(
    """connect.protocol header.converter header.converter. inter.worker. metadata.recovery.strategy
    metric.reporters metrics.context. metrics.num.samples metrics.recording.level metrics.sample.window.ms
    offset.flush.timeout.ms plugin.discovery plugin.path scheduled.rebalance.max.delay.ms topic.tracking.allow.reset
    topic.tracking.enable worker.sync.timeout.ms worker.unsync.backoff.ms"""
)
_LATER = {
    "access.control.allow.methods": "Remove it, and put a proxy with it before a listener on 127.0.0.1.",
    "admin.listeners": "REST has one set of listeners. Remove it.",
    "offset.storage.file.filename": "Offsets are in Kafka: give offset.storage.topic.",
    "response.http.headers.config": "Remove it, and put a proxy with it before a listener on 127.0.0.1.",
}
#: Empty is what Kafka has by default.
_UNLESS_EMPTY = ("access.control.allow.methods", "response.http.headers.config")
_LATER_PREFIXES = ("config.storage.", "status.storage.", "offset.storage.", "rest.", "listeners.")
#: How like a known name is to a name that was meant to be it.
_TYPED_WRONG = 0.85
_CONVERTERS = ("key.converter.", "value.converter.")
_PRODUCER, _ADMIN, _CONSUMER = "producer.", "admin.", "consumer."


def _replication(kind: str) -> Any:
    return setting(int, None, 1, also=-1, name=f"{kind}.storage.replication.factor")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """The settings of a worker. ``client`` is for the worker itself, ``producer`` for its tasks.

    A replication of None is three, or as many as there are brokers. Without a config topic connectors are those of
    files, and those that REST is given last as long as the worker.
    """

    client: Mapping[str, str]
    producer: Mapping[str, str]
    #: For the admin client of connectors.
    admin: Mapping[str, str]
    #: For the consumer of a sink's task, with the settings of its group.
    consumer: Mapping[str, str]
    #: What variables in a connector's properties stand for.
    providers: Providers
    #: What the worker's properties say to its converters, by ``key.converter.`` and ``value.converter.``.
    converters: Mapping[str, str]
    rest: RestConfig
    key_converter: str = setting(str)
    value_converter: str = setting(str)
    #: Which properties of their clients connectors may override.
    override_policy: str = setting(str, "all", name=_POLICY, one_of=tuple(POLICIES))
    #: Whether connectors may have topics made.
    topic_creation: bool = setting(bool, True, name="topic.creation.enable")
    group_id: str = setting(str)
    offsets_topic: str = setting(str, name="offset.storage.topic")
    offsets_partitions: int = setting(int, 25, 1, name="offset.storage.partitions")
    offsets_replication: int | None = _replication("offset")
    config_topic: str | None = setting(str, None, name="config.storage.topic")
    config_replication: int | None = _replication("config")
    status_topic: str | None = setting(str, None, name="status.storage.topic")
    status_partitions: int = setting(int, 5, 1, name="status.storage.partitions")
    status_replication: int | None = _replication("status")
    support: str = setting(
        str, "disabled", name="exactly.once.source.support", one_of=("disabled", "preparing", "enabled")
    )
    flush_interval_ms: int = setting(int, 60_000, 0, name="offset.flush.interval.ms")
    graceful_timeout_ms: int = setting(int, 5_000, 0, name="task.shutdown.graceful.timeout.ms")
    #: How long the driver waits for a connector's own code.
    connector_timeout_ms: int = setting(int, 60_000, 1, name="semel.connector.timeout.ms")
    session_timeout_ms: int = setting(int, 10_000, 1)
    rebalance_timeout_ms: int = setting(int, 60_000, 1)
    heartbeat_ms: int = setting(int, 3_000, 1, name="heartbeat.interval.ms")
    origins: Sequence[str] = setting(list, (), name="access.control.allow.origin")
    #: Programs that connectors may run, as they name them.
    programs: Sequence[str] = setting(list, (), name="semel.programs.allowed")

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
        own = {name: given.pop(name).strip() for name in _known() & given.keys()}
        of_https = {name: given.pop(name).strip() for name in list(given) if name.startswith(HTTPS)}
        converters = {name: given.pop(name).strip() for name in list(given) if name.startswith(_CONVERTERS)}
        given = {name: value for name, value in given.items() if name not in _UNLESS_EMPTY or value.strip()}
        _refuse_later(given)
        header_options = converter_options(given, "header.converter")
        check_header_converter(given.get("header.converter", "SimpleHeaderConverter").strip(), header_options)
        unused = [name for name in given if name in _UNUSED]
        for name in ("key.converter", "value.converter"):
            options = converter_options(converters, name)
            unused += [f"{name}.{option}" for option in without_effect(own.get(name, ""), options)]
        warn_of_unused("the worker", unused)
        clients = {name: value for name, value in given.items() if name not in _UNUSED}
        if _POLICY in own:  # Kafka Connect takes the names of its classes too
            own[_POLICY] = own[_POLICY].rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy")
        own = {name: value for name, value in own.items() if value or not name.endswith(".storage.topic")}
        values = read_fields(cls, own)
        for name in ("key.converter", "value.converter"):
            converter(own[name], name, converter_options(converters, name))
        # a worker of files alone opens no port by default
        rest = RestConfig.parse(own, {**given, **of_https}, by_default=bool(values["config_topic"]))
        client = {name: value for name, value in clients.items() if not name.startswith((_PRODUCER, _ADMIN, _CONSUMER))}
        config = cls(
            client=_checked("", client, client),
            producer=_checked(_PRODUCER, client, clients),
            admin=_checked(_ADMIN, client, clients),
            consumer=_checked(_CONSUMER, client, clients),
            providers=providers,
            converters=converters,
            rest=rest,
            **values,
        )
        config._check()
        return config

    def _check(self) -> None:
        if bool(self.config_topic) != bool(self.status_topic):
            kind, other = ("status", "config") if self.config_topic else ("config", "status")
            remedy = f"Give both it and {other}.storage.topic, or neither: then connectors are those of files."
            raise missing(f"{kind}.storage.topic", remedy=remedy)
        names = [name for name in (self.offsets_topic, self.config_topic, self.status_topic) if name]
        if len(set(names)) < len(names):
            raise ConfigError(
                f"two of the worker's storage topics have one name. {NOTHING} Give each a name of its own.",
                tag="WRONG_VALUE",
            )
        if self.heartbeat_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat.interval.ms={self.heartbeat_ms} is not below session.timeout.ms="
                f"{self.session_timeout_ms}. {NOTHING} Lower it, to a third at most.",
                tag="WRONG_VALUE",
            )


def _known() -> set[str]:
    return {*table_of(WorkerConfig), *REST_SETTINGS}


def converter_options(given: Mapping[str, str], setting: str) -> dict[str, str]:
    """Return the options of the converter of ``key.converter`` or ``value.converter``."""
    return {name.removeprefix(f"{setting}."): value for name, value in given.items() if name.startswith(f"{setting}.")}


def _checked(prefix: str, client: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a client: the worker's own, and over them those that begin with ``prefix``."""
    own = {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}
    properties = {**client, **own}
    of_client = consumer_client(properties) if prefix == _CONSUMER else properties
    ClientConfig.parse(of_client, prefix, [*_known(), *_UNUSED.exact, *_LATER])
    return properties


def _refuse_later(given: Mapping[str, str]) -> None:
    for name in given:
        if name in _LATER or name.startswith(_LATER_PREFIXES):
            # a mistake in typing is not a setting of Kafka's that is to come
            if name not in _LATER and (hint := nearest(name, _known(), likeness=_TYPED_WRONG)):
                raise unknown(name, (), hint=hint)
            raise not_yet(f"{name:.200}", _LATER.get(name, "Remove it."))
