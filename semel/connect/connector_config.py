"""A connector's properties: every setting is checked, and every problem is found, each at its setting.

REST shows them at their fields; a file of properties is refused with the first one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from semel.config import nearest
from semel.connect.api import REQUIRED, Setting, SourceConnector
from semel.connect.asking import ask_connector
from semel.connect.clients import OVERRIDES, ConnectorClients, read_clients
from semel.connect.config import NOTHING, WorkerConfig, converter_options
from semel.connect.converters import Converter
from semel.connect.definitions import COMMON, Definition, own_definition
from semel.connect.plugins import connector_class, converter, option_of
from semel.connect.topic_creation import PREFIX, TopicCreation, read_topic_creation
from semel.connect.transforms import Chain, read_chain
from semel.connect.unused import check_unused, warn_of_unused
from semel.errors import ConfigError, SemelError, Unsupported

__all__ = ["ConnectorConfig", "Examination", "Problem", "settings_of"]

_LATER = {
    "config.action.reload": "Remove it.",
}
_NO_CONTROLS = "String may not contain control sequences"
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_BOUNDARIES = ("INTERVAL", "POLL", "CONNECTOR")


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with one setting. ``text`` is for the field, in Kafka Connect's words if it has them."""

    setting: str
    text: str
    tag: str = "WRONG_VALUE"
    remedy: str = "Correct it."
    cause: BaseException | None = None
    unsupported: bool = False

    def error(self, name: str) -> SemelError:
        """Return the problem as an error."""
        kind = Unsupported if self.unsupported else ConfigError
        made = kind(f"connector {name!r}: {self.text} {NOTHING} {self.remedy}", tag=self.tag)
        made.__cause__ = self.cause
        return made


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """Configuration of a connector. ``own`` are the settings of its class, with their defaults."""

    name: str
    class_name: str
    connector: SourceConnector
    max_tasks: int
    key: Converter
    value: Converter
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

    @property
    def has_own_offsets(self) -> bool:
        """True if its offsets have their own topic: by its setting, or because it writes to another cluster."""
        return bool(self.offsets_topic) or self.clients.elsewhere

    @classmethod
    def parse(cls, properties: Mapping[str, str], worker: WorkerConfig) -> ConnectorConfig:
        """Read a connector's properties. Raises the first problem, as :class:`ConfigError` or :class:`Unsupported`.

        It calls the connector's own code: a driver does that :func:`~semel.connect.asking.within` a time.
        """
        examination = Examination(properties, worker)
        if examination.problems:
            raise examination.problems[0].error(properties.get("name", "").strip())
        return examination.config


@dataclass
class Examination:
    """A look at all of a connector's properties."""

    properties: Mapping[str, str]
    worker: WorkerConfig
    problems: list[Problem] = field(default_factory=list)
    definitions: list[Definition] = field(default_factory=lambda: list(COMMON))
    #: There unless there are problems.
    config: ConnectorConfig = field(init=False)

    def __post_init__(self) -> None:
        self._raw = {name: value.strip() for name, value in self.properties.items()}
        self._given = self._resolved()
        name = self._given.get("name", "")
        if not name:
            self._missing("name")
        elif controls := [str(ord(one)) for one in name if unicodedata.category(one) == "Cc"]:
            found = f"but had the following ASCII chars: {', '.join(controls)}"
            self._add("name", f"Invalid value {name!r:.200} for configuration name: {_NO_CONTROLS} {found}")
        elif "/" in name or name != name.encode(errors="ignore").decode():
            self._add("name", f"Invalid value {name!r:.200} for configuration name: REST could not reach it.")
        self._class = self._given.get("connector.class", "")
        connector = self._connector(name)
        if connector is None:
            return
        settings = settings_of(name, connector)
        self.definitions += [own_definition(key, setting) for key, setting in settings.items()]
        chain, clients = self._chain(), self._clients()
        self._check_known(settings)
        check_unused(self._given, self._convert, self._add, self._raised)
        own = {key: self._own(key, setting) for key, setting in settings.items()}
        made: dict[str, Any] = {
            "max_tasks": self._whole("tasks.max", 1, 1),
            "key": self._converter("key.converter"),
            "value": self._converter("value.converter"),
            "boundary": self._choice("transaction.boundary", "poll", _BOUNDARIES),
            "interval_ms": self._whole("transaction.boundary.interval.ms", self.worker.flush_interval_ms, 0),
            "chain": chain,
            "topic_creation": self._topic_creation(clients),
            "clients": clients,
            "offsets_topic": self._given.get("offsets.storage.topic", ""),
            "tolerate_errors": self._choice("errors.tolerance", "none", ("none", "all")) == "all",
            "log_errors": self._flag("errors.log.enable"),
            "log_messages": self._flag("errors.log.include.messages"),
            "dead_letters": self._given.get("errors.deadletterqueue.topic.name", ""),
            "dead_letter_headers": self._flag("errors.deadletterqueue.context.headers.enable"),
        }
        wanted = self._choice("exactly.once.support", "requested", ("REQUIRED", "REQUESTED"))
        if not self.problems:
            self._check_boundary(connector, made["boundary"], own)
            self._check_support(connector, wanted, own)
        if not self.problems:
            self.config = ConnectorConfig(name=name, class_name=self._class, connector=connector, own=own, **made)
            warn_of_unused(name, self._given)

    def values(self) -> list[dict[str, Any]]:
        """Each definition with its value and its errors, as REST shows them."""
        shown = []
        for definition in self.definitions:
            errors = [problem.text for problem in self.problems if problem.setting == definition.name]
            value: str | None = self._raw.get(definition.name, definition.default)
            if definition.type == "PASSWORD" and value is not None:
                value = "[hidden]"
            shown.append(_field(definition, value, errors))
        known = {definition.name for definition in self.definitions}
        for problem in self.problems:
            if problem.setting not in known:
                definition = Definition(problem.setting, problem.setting, "")
                shown.append(_field(definition, self._raw.get(problem.setting), [problem.text]))
        return shown

    def _resolved(self) -> dict[str, str]:
        """Return the properties with all variables replaced."""
        found: dict[str, str] = {}
        for name, value in self._raw.items():
            try:
                found |= self.worker.providers.resolve({name: value})
            except ConfigError as error:
                self._raised(name, error)
                found[name] = value
        return found

    # ---- one setting

    def _connector(self, name: str) -> SourceConnector | None:
        if not self._class:
            self._missing("connector.class")
            return None
        try:
            found = ask_connector(name, "its module", lambda: connector_class(self._class))
            return ask_connector(name, "its constructor", found)
        except SemelError as error:
            self._raised("connector.class", error)
            return None

    def _check_known(self, settings: Mapping[str, Setting]) -> None:
        known = {definition.name for definition in self.definitions}
        for name in self._given:
            if name in settings or name.startswith((*(f"{setting}." for setting in _CONVERTERS), PREFIX, *OVERRIDES)):
                continue
            if name in _LATER:
                text = f"{name:.200} is not there yet."
                self._add(name, text, tag="NOT_YET", remedy=_LATER[name], unsupported=True)
            elif name not in known and name not in self._read:
                hint = nearest(name, known) or "."
                text = f"{name:.200} is not a known property{hint}"
                self._add(name, text, tag="UNKNOWN_OPTION", remedy="Correct or remove it.")

    def _own(self, name: str, setting: Setting) -> Any:
        if name not in self._given:
            if setting.default is REQUIRED:
                self._missing(name)
                return None
            return setting.default
        return self._convert(name, self._given[name], setting)

    def _convert(self, name: str, text: str, setting: Setting) -> Any:
        shown = "[hidden]" if setting.secret else self._raw.get(name, text)
        wrong = f"Invalid value {shown:.200} for configuration {name}:"
        try:
            value = _KINDS[setting.kind](text)
        except (ValueError, KeyError):
            self._add(name, f"{wrong} {_NOT[setting.kind]}.")
            return None
        if setting.at_least is not None and value < setting.at_least:
            self._add(name, f"{wrong} Value must be at least {setting.at_least}.")
        if setting.program and text not in self.worker.programs:
            self._add(name, f"{wrong} The worker's file does not name it in semel.programs.allowed.", tag="PROGRAM")
        if setting.one_of and text.lower() not in map(str.lower, setting.one_of):
            self._add(name, f"{wrong} String must be one of (case insensitive): {', '.join(setting.one_of)}.")
        return value

    def _whole(self, name: str, default: int, least: int) -> int:
        if name not in self._given:
            return default
        value = self._convert(name, self._given[name], Setting(int, at_least=least))
        return value if isinstance(value, int) else default

    def _flag(self, name: str) -> bool:
        return self._convert(name, self._given.get(name, "false"), Setting(bool)) is True

    def _chain(self) -> Chain:
        """Return the transformations and predicates. Report each problem at its setting."""
        chain, found, read = read_chain(self._given, self._convert)
        self.problems += [Problem(one.setting, one.text, tag="TRANSFORM") for one in found]
        self.definitions += [
            Definition(name, name, "", group=f"{name.partition('.')[0].title()}: {name.split('.')[1]}")
            for name in sorted(read)
            if "." in name and name in self._given
        ]
        self._read = read
        return chain

    def _clients(self) -> ConnectorClients:
        """Return the worker's clients with this connector's overrides."""
        if self._given.get("offsets.storage.topic") == "":
            text = "Invalid value  for configuration offsets.storage.topic: String may not be empty."
            self._add("offsets.storage.topic", text)
        worker = self.worker
        return read_clients(
            self._given,
            worker.client,
            worker.producer,
            worker.admin,
            worker.override_policy,
            lambda setting, text: self._add(setting, text, tag="OVERRIDE"),
        )

    def _topic_creation(self, clients: ConnectorClients) -> TopicCreation | None:
        """Return the settings for missing topics. A worker may say that none is created."""
        if not self.worker.topic_creation:
            return None
        self.definitions += [
            Definition(name, name, "", group="Topic Creation")
            for name in sorted(self._given)
            if name.startswith(PREFIX) and name != f"{PREFIX}groups"
        ]
        return read_topic_creation(
            self._given,
            clients.admin,
            self._convert,
            lambda setting, text: self._add(setting, text, tag="TOPIC_CREATION"),
        )

    def _choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        self._convert(name, self._given.get(name, default), Setting(str, one_of=tuple(choices)))
        return self._given.get(name, default).lower()

    def _converter(self, setting: str) -> Converter | None:
        """Return the connector's own converter, or the worker's. None after a problem, which is reported."""
        if setting in self._given:
            name, options = self._given[setting], converter_options(self._given, setting)
        else:
            worker = self.worker
            name = worker.key_converter if setting == "key.converter" else worker.value_converter
            options = converter_options(worker.converters, setting)
        try:
            return converter(name, setting, options)
        except SemelError as error:
            self._raised(option_of(error, setting, options), error)
            return None

    def _check_boundary(self, connector: SourceConnector, boundary: str, own: Mapping[str, Any]) -> None:
        """Refuse boundaries of the connector's where it has none, or nothing is transactional (KIP-618's preflight)."""
        if boundary != "connector":
            return
        setting = "transaction.boundary"
        try:
            able = ask_connector("", setting, lambda: connector.can_define_transaction_boundaries(own))
        except SemelError as error:
            text = f"an unexpected error occurred in the connector's validation of {setting}: {error.message}"
            self._add(setting, text, tag="BOUNDARY", cause=error)
            return
        if able is None:
            text = "the connector returned null for its support of transaction boundaries, which is not permitted, and"
            self._add(setting, f"{text} is treated as unsupported. Use another boundary.", tag="BOUNDARY", remedy="")
        elif not able:
            text = "the connector does not support connector-defined transaction boundaries with this configuration."
            self._add(setting, f"{text} Use another boundary.", tag="BOUNDARY", remedy="")
        elif not self.worker.exactly_once:
            text = "transaction.boundary=connector needs a worker with exactly.once.source.support=enabled."
            self._add(setting, text, tag="BOUNDARY", remedy="Use another boundary.")

    def _check_support(self, connector: SourceConnector, wanted: str, own: Mapping[str, Any]) -> None:
        """Refuse ``exactly.once.support=required`` if the connector does not promise it (KIP-618's preflight)."""
        if wanted != "required":
            return
        setting = "exactly.once.support"
        if not self.worker.exactly_once:
            text = "this worker does not have exactly-once source support enabled."
            remedy = "Set exactly.once.source.support=enabled for the worker."
        else:
            try:
                supported = ask_connector("", setting, lambda: connector.exactly_once_support(own))
            except SemelError as error:
                if error.tag != "CONNECTOR_RAISED":  # it says itself what is missing
                    self._raised(setting, error)
                    return
                text = f"an unexpected error occurred in the connector's validation of {setting}: {error.message}"
                self._add(setting, text, tag="EXACTLY_ONCE_SUPPORT", cause=error)
                return
            if supported:
                return
            if supported is False:
                text = "the connector does not support exactly-once with this configuration."
                remedy = "Change it, or use requested."
            else:
                text = "the connector does not implement the API for preflight validation of exactly-once support."
                remedy = "Consult its documentation; where that promises it, use requested."
        text = f"{setting}=required, but {text} {remedy}"
        self._add(setting, text, tag="EXACTLY_ONCE_SUPPORT", remedy="")

    # ---- problems

    def _missing(self, name: str) -> None:
        text = f'Missing required configuration "{name}" which has no default value.'
        self._add(name, text, tag="MISSING_OPTION", remedy="Give it, as for Kafka Connect.")

    def _raised(self, setting: str, error: SemelError) -> None:
        text, _, remedy = error.message.partition(f" {NOTHING} ")
        self._add(setting, text, tag=error.tag, remedy=remedy, cause=error, unsupported=isinstance(error, Unsupported))

    def _add(self, setting: str, text: str, **more: Any) -> None:
        self.problems.append(Problem(setting, text, **more))


def settings_of(name: str, connector: SourceConnector) -> dict[str, Setting]:
    """Return the settings of a connector's class. Raises :class:`ConfigError` for what is none."""

    def read() -> dict[str, Setting]:
        return {key: one if isinstance(one, Setting) else Setting(one) for key, one in connector.config.items()}

    return ask_connector(name, "its config", read)


def _field(definition: Definition, value: str | None, errors: Sequence[str]) -> dict[str, Any]:
    shown = {
        "name": definition.name,
        "value": value,
        "recommended_values": [],
        "errors": list(errors),
        "visible": True,
    }
    return {"definition": definition.shown(), "value": shown}


_KINDS: dict[type, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    bool: lambda text: {"true": True, "false": False}[text.lower()],
    list: lambda text: [one.strip() for one in text.split(",") if one.strip()],
}
_NOT = {
    int: "Not a number of type LONG",
    float: "Not a number of type DOUBLE",
    bool: "Expected value to be either true or false",
}
