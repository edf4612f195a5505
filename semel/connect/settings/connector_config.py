"""A connector's properties: every setting is checked, and every problem is found, each at its setting.

REST shows them at their fields; a file of properties is refused with the first one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from semel.connect.api import SourceConnector
from semel.connect.converters import ConfiguredConverter
from semel.connect.herder.connector_calls import ask_connector
from semel.connect.plugins import check_header_converter, connector_class, converter, option_of, without_effect
from semel.connect.settings.clients import ConnectorClients, read_clients
from semel.connect.settings.connector_properties import ConnectorProperties, Problem
from semel.connect.settings.definitions import COMMON, SINK, Definition
from semel.connect.settings.preflight import check_boundary, check_own, check_support
from semel.connect.settings.sink_config import SinkSettings, read_sink
from semel.connect.settings.worker_config import WorkerConfig, converter_options
from semel.connect.sink_api import SinkConnector
from semel.connect.tasks.topic_creation import PREFIX, TopicCreation, read_topic_creation
from semel.connect.transforms import Chain, read_chain
from semel.errors import ConfigError, SemelError
from semel.settings import REQUIRED, Setting, nearest
from semel.settings.unused import warn_of_unused

__all__ = ["ConnectorConfig", "ConnectorConfigParser", "settings_of"]

_NO_CONTROLS = "String may not contain control sequences"
_HEADERS = "header.converter"
_UNUSED = ("connector.plugin.version", "errors.retry.delay.max.ms")


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """Configuration of a connector. ``own`` are the settings of its class, with their defaults."""

    name: str
    class_name: str
    connector: SourceConnector | SinkConnector
    max_tasks: int
    key: ConfiguredConverter
    value: ConfiguredConverter
    own: Mapping[str, Any]
    chain: Chain
    clients: ConnectorClients
    boundary: str = "poll"
    interval_ms: int = 0
    tolerate_errors: bool = False
    log_errors: bool = False
    log_messages: bool = False
    #: The dead-letter topic; empty without one.
    dead_letters: str = ""
    dead_letter_headers: bool = False
    #: How topics are made that are missing; None where they must be there.
    topic_creation: TopicCreation | None = None
    #: A topic of its own for offsets; empty for the worker's name.
    offsets_topic: str = ""
    #: None for a source.
    sink: SinkSettings | None = None

    @property
    def has_own_offsets(self) -> bool:
        """True if its offsets have their own topic: by its setting, or because it writes to another cluster."""
        return bool(self.offsets_topic) or self.clients.elsewhere

    @property
    def source(self) -> SourceConnector:
        """The connector, if it is a source. Raises :class:`ConfigError` for a sink."""
        if isinstance(self.connector, SourceConnector):
            return self.connector
        raise ConfigError(
            f"connector {self.name!r} is a sink, and this is for sources. Nothing was read or written. Name a source.",
            tag="NO_SOURCE",
        )

    @classmethod
    def parse(cls, properties: Mapping[str, str], worker: WorkerConfig) -> ConnectorConfig:
        """Read a connector's properties. Raises the first problem, as :class:`ConfigError` or :class:`Unsupported`.

        It calls the connector's own code: a driver does that :func:`~semel.connect.herder.connector_calls.within` a
        time.
        """
        parser = ConnectorConfigParser(properties, worker)
        if parser.config is None:
            raise parser.problems[0].error(properties.get("name", "").strip())
        return parser.config


class ConnectorConfigParser:
    """A connector's properties, read as a whole. ``config`` is None if there are problems."""

    def __init__(self, properties: Mapping[str, str], worker: WorkerConfig) -> None:
        self._properties = ConnectorProperties(properties, worker.providers, worker.programs)
        self._given, self._worker = self._properties.given, worker
        self.problems: list[Problem] = self._properties.problems
        self.definitions = list(COMMON)
        self.config = self._parse()

    def values(self) -> list[dict[str, Any]]:
        """Return each definition with its value and its errors, as REST shows them."""
        known = {definition.name for definition in self.definitions}
        others = dict.fromkeys(one.setting for one in self.problems if one.setting not in known)
        return [self._field(one) for one in (*self.definitions, *map(Definition, others))]

    def _field(self, definition: Definition) -> dict[str, Any]:
        value = self._properties.raw.get(definition.name, definition.default)
        shown = {
            "name": definition.name,
            "value": "[hidden]" if definition.setting.secret and value is not None else value,
            "recommended_values": [],
            "errors": [problem.text for problem in self.problems if problem.setting == definition.name],
            "visible": True,
        }
        return {"definition": definition.shown(), "value": shown}

    def _parse(self) -> ConnectorConfig | None:
        name, class_name = self._name(), self._properties.text("connector.class")
        connector = self._connector(name, class_name)
        if connector is None:
            return None
        is_sink = isinstance(connector, SinkConnector)
        shared = SINK if is_sink else COMMON
        self.definitions = list(shared)
        settings = settings_of(name, connector)
        self.definitions += [Definition(key, setting) for key, setting in settings.items()]
        chain, clients = self._chain(), self._clients(sink=is_sink)
        before = len(self.problems)
        optional = [one for one in shared if one.setting.default is not REQUIRED]
        common = {one.name: self._properties.read(one.name, one.setting) for one in optional}
        own = {key: self._own(key, setting) for key, setting in settings.items()}
        if is_sink:
            own["name"] = name  # a target keeps offsets by it
        self._check_unused(common, sink=is_sink)
        key, value = self._converter("key.converter"), self._converter("value.converter")
        sink = read_sink(self._properties, name, common, clients.consumer) if is_sink else None
        creation = None if is_sink else self._topic_creation(clients)
        self.problems[before:before] = self._unknown(settings)
        if not self.problems and isinstance(connector, SourceConnector):
            exactly_once = self._worker.exactly_once
            if common["transaction.boundary"].lower() == "connector":
                check_boundary(self._properties, connector, own, exactly_once=exactly_once)
            if common["exactly.once.support"].lower() == "required":
                check_support(self._properties, connector, own, exactly_once=exactly_once)
        if not self.problems:
            check_own(self._properties, connector, own, [one.name for one in self.definitions])
        if self.problems or key is None or value is None:
            return None
        self._warn_of_unused(name)
        interval = common.get("transaction.boundary.interval.ms")
        return ConnectorConfig(
            name=name,
            class_name=class_name,
            connector=connector,
            own=own,
            max_tasks=common["tasks.max"],
            key=key,
            value=value,
            boundary=common.get("transaction.boundary", "poll").lower(),
            interval_ms=self._worker.flush_interval_ms if interval is None else interval,
            chain=chain,
            topic_creation=creation,
            clients=clients,
            offsets_topic=common.get("offsets.storage.topic") or "",
            tolerate_errors=common["errors.tolerance"] == "all",
            log_errors=common["errors.log.enable"],
            log_messages=common["errors.log.include.messages"],
            dead_letters=common["errors.deadletterqueue.topic.name"],
            dead_letter_headers=common["errors.deadletterqueue.context.headers.enable"],
            sink=sink,
        )

    def _name(self) -> str:
        name = self._properties.text("name")
        if not name:
            self._properties.missing("name")
        elif controls := [str(ord(one)) for one in name if unicodedata.category(one) == "Cc"]:
            found = f"but had the following ASCII chars: {', '.join(controls)}"
            self._properties.add("name", f"Invalid value {name!r:.200} for configuration name: {_NO_CONTROLS} {found}")
        elif "/" in name or name != name.encode(errors="ignore").decode():
            text = f"Invalid value {name!r:.200} for configuration name: REST could not reach it."
            self._properties.add("name", text)
        return name

    def _connector(self, name: str, class_name: str) -> SourceConnector | SinkConnector | None:
        if not class_name:
            self._properties.missing("connector.class")
            return None
        try:
            found = ask_connector(name, "its module", lambda: connector_class(class_name))
            return ask_connector(name, "its constructor", lambda: found())
        except SemelError as error:
            self._properties.raised("connector.class", error)
            return None

    def _own(self, key: str, setting: Setting) -> Any:
        """Return the value of one of the class's own settings; for a key that ends in ``.*``, all that begin so."""
        if not key.endswith(".*"):
            return self._properties.read(key, setting)
        given = self._properties.below(key[:-1])
        self.definitions += [Definition(f"{key[:-1]}{name}", setting) for name in given]
        return given

    def _chain(self) -> Chain:
        """Return the transformations and predicates."""
        chain, given = read_chain(self._properties), self._given
        self.definitions += [
            Definition(name, group=f"{name.partition('.')[0].title()}: {name.split('.')[1]}")
            for name in sorted(self._properties.known & given.keys())
            if name.startswith(("transforms.", "predicates."))
        ]
        return chain

    def _clients(self, *, sink: bool) -> ConnectorClients:
        """Return the worker's clients with this connector's overrides."""
        if self._given.get("offsets.storage.topic") == "":
            self._properties.invalid("offsets.storage.topic", "String may not be empty.")
        worker = self._worker
        clients = worker.client, worker.producer, worker.admin, worker.consumer
        return read_clients(self._properties, *clients, worker.override_policy, sink=sink)

    def _topic_creation(self, clients: ConnectorClients) -> TopicCreation | None:
        """Return the settings for missing topics. A worker may say that none is created."""
        names = sorted(f"{PREFIX}{name}" for name in self._properties.below(PREFIX))
        if not self._worker.topic_creation:
            return None
        self.definitions += [Definition(name, group="Topic Creation") for name in names if name != f"{PREFIX}groups"]
        return read_topic_creation(self._properties, clients.admin)

    def _converter(self, setting: str) -> ConfiguredConverter | None:
        """Return the connector's own converter, or the worker's. None after a problem, which is reported."""
        name, options = self._given.get(setting), self._properties.below(f"{setting}.")
        if name is None:
            worker = self._worker
            name = worker.key_converter if setting == "key.converter" else worker.value_converter
            options = converter_options(worker.converters, setting)
        try:
            return converter(name, setting, options)
        except SemelError as error:
            self._properties.raised(option_of(error, setting, options), error)
            return None

    # ---- names that are unknown, or change nothing

    def _unknown(self, settings: Mapping[str, Setting]) -> list[Problem]:
        names = {definition.name for definition in self.definitions}
        found = []
        for name in self._given:
            if name == "config.action.reload" and name not in settings:
                text = f"{name} is not there yet."
                found.append(Problem(name, text, tag="NOT_YET", remedy="Remove it.", unsupported=True))
            elif name not in self._properties.known:
                text = f"{name:.200} is not a known property{nearest(name, names) or '.'}"
                found.append(Problem(name, text, tag="UNKNOWN_OPTION", remedy="Correct or remove it."))
        return found

    def _check_unused(self, common: Mapping[str, Any], *, sink: bool) -> None:
        """Refuse a value that would change the result."""
        timeout = common["errors.retry.timeout"]
        if timeout and not sink:
            text = f"errors.retry.timeout={timeout} is not there yet: a conversion that failed once fails again."
            remedy = "Remove it, or give 0."
            self._properties.add("errors.retry.timeout", text, tag="NOT_YET", remedy=remedy, unsupported=True)
        options = self._properties.below(f"{_HEADERS}.")
        try:
            check_header_converter(self._given.get(_HEADERS, "SimpleHeaderConverter"), options)
        except SemelError as error:
            self._properties.raised(option_of(error, _HEADERS, options), error)

    def _warn_of_unused(self, name: str) -> None:
        """Name what is given and changes nothing, once in a process."""
        given = self._given
        unused = [one for one in given if one in _UNUSED or f"{one}.".startswith(f"{_HEADERS}.")]
        if given.get("tasks.max.enforce", "true").lower() == "false":
            unused.append("tasks.max.enforce")
        for setting in ("key.converter", "value.converter"):
            options = converter_options(given, setting)
            # without its class, a connector has the worker's converter with the worker's options
            found = without_effect(given[setting], options) if setting in given else options
            unused += [f"{setting}.{option}" for option in found]
        warn_of_unused(f"connector {name}", unused)


def settings_of(name: str, connector: SourceConnector | SinkConnector) -> dict[str, Setting]:
    """Return the settings of a connector's class. Raises :class:`ConfigError` for what is none."""

    def read() -> dict[str, Setting]:
        return {key: one if isinstance(one, Setting) else Setting(one) for key, one in connector.config.items()}

    return ask_connector(name, "its config", read)
