"""Settings of a connector beside those of its class: Kafka Connect's names, types, defaults and groups.

REST shows them, and the parser of a connector's properties reads by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from semel.settings import INT_MAX, REQUIRED, Setting, as_text

__all__ = ["COMMON", "SINK", "Definition", "type_name"]

_TYPES = {str: "STRING", int: "LONG", float: "DOUBLE", bool: "BOOLEAN", list: "LIST", type: "CLASS"}


def type_name(setting: Setting) -> str:
    """Return Kafka Connect's name of a setting's type."""
    if setting.secret:
        return "PASSWORD"
    return "INT" if setting.at_most == INT_MAX else _TYPES[setting.kind]


_NONE = Setting(str, None)


@dataclass(frozen=True, slots=True)
class Definition:
    """One setting, as ``/connector-plugins/…/config`` shows it."""

    name: str
    setting: Setting = _NONE
    title: str = ""
    importance: str = ""
    group: str | None = None
    order: int = -1
    width: str = "NONE"

    @property
    def default(self) -> str | None:
        """The default as text, as far as it may be shown."""
        default = self.setting.default
        if default is REQUIRED or default is None:
            return None
        return "[hidden]" if self.setting.secret and default else as_text(default)

    def shown(self) -> dict[str, Any]:
        """Return its JSON."""
        required = self.setting.default is REQUIRED
        return {
            "name": self.name,
            "type": type_name(self.setting),
            "required": required,
            "default_value": self.default,
            "importance": self.importance or ("HIGH" if required else "MEDIUM"),
            "documentation": self.setting.documentation,
            "group": self.group,
            "order_in_group": self.order,
            "width": self.width,
            "display_name": self.title or self.name,
            "dependents": [],
        }


def _unused(default: Any = None, text: str = "Changes nothing.", kind: type = str) -> Setting:
    return Setting(kind, default, documentation=text)


def _flag(text: str) -> Setting:
    return Setting(bool, False, documentation=text)


_SETTINGS = {
    "name": Setting(str, documentation="The connector's name. Its source offsets and transactional ids carry it."),
    "connector.class": Setting(
        str, documentation="A Python class, as package.module.Class, or the name of a connector that semel brings."
    ),
    "connector.plugin.version": _unused(None, "Changes nothing: the version that is installed runs."),
    "tasks.max": Setting(int, 1, 1, "How many tasks the connector may have.", at_most=INT_MAX),
    "tasks.max.enforce": _unused(True, "Changes nothing: more tasks than tasks.max are refused.", bool),
    "key.converter": Setting(type, None, None, "How keys become bytes; the worker's unless it is given."),
    "key.converter.plugin.version": _unused(),
    "value.converter": Setting(type, None, None, "How values become bytes; the worker's unless it is given."),
    "value.converter.plugin.version": _unused(),
    "header.converter": Setting(
        type,
        None,
        documentation="Headers are text or bytes here, and are written as they are."
        " Converters that would change them are refused.",
    ),
    "header.converter.plugin.version": _unused(),
    "transforms": Setting(
        list, (), documentation="Names of the transformations, in the order in which they are applied."
    ),
    "predicates": Setting(list, (), documentation="Names of the predicates that transformations may use."),
    "config.action.reload": _unused("restart", "Not there: values of config providers are read when a task starts."),
    "errors.retry.timeout": _unused(
        0, "0: there are no retries, since a conversion that failed once fails again.", int
    ),
    "errors.retry.delay.max.ms": _unused(60_000, kind=int),
    "errors.tolerance": Setting(
        str,
        "none",
        documentation="none: a record that cannot be converted stops the task."
        " all: it is left out, and its offset counts.",
        one_of=("none", "all"),
    ),
    "errors.log.enable": _flag("Log each record that is left out."),
    "errors.log.include.messages": _flag("Log its topic with it."),
    "errors.deadletterqueue.topic.name": Setting(
        str,
        "",
        documentation="The topic for records that are left out. They are written in the transaction of their poll.",
    ),
    "errors.deadletterqueue.context.headers.enable": _flag("Say in headers which record it was, and what was wrong."),
    "topic.creation.groups": Setting(
        list, (), documentation="Groups of topics that are created with settings of their own."
    ),
    "exactly.once.support": Setting(
        str,
        "requested",
        documentation="required: refuse the connector unless it promises exactly-once with this configuration.",
        one_of=("REQUIRED", "REQUESTED"),
    ),
    "transaction.boundary": Setting(
        str,
        "poll",
        documentation="What a transaction holds: one poll, all of an interval, or what the connector decides.",
        one_of=("INTERVAL", "POLL", "CONNECTOR"),
    ),
    "transaction.boundary.interval.ms": Setting(
        int,
        None,
        0,
        "How long a transaction of the boundary interval is; offset.flush.interval.ms unless it is given.",
    ),
    "offsets.storage.topic": Setting(
        str,
        None,
        documentation="A topic of its own for the offsets of this connector. They are copied to the worker's too.",
    ),
}
#: How Kafka Connect shows them: name, importance, group, order in it, width, title.
_SHOWN = """
name                               | HIGH   | Common | 1  | MEDIUM | Connector name
connector.class                    | HIGH   | Common | 2  | LONG   | Connector class
connector.plugin.version           | MEDIUM | Common | 3  | MEDIUM | Connector version
tasks.max                          | HIGH   | Common | 4  | SHORT  | Tasks max
tasks.max.enforce                  | LOW    | Common | 5  | SHORT  | Enforce tasks max
key.converter                      | LOW    | Common | 6  | SHORT  | Key converter class
key.converter.plugin.version       | LOW    | Common | 7  | SHORT  | Key converter version
value.converter                    | LOW    | Common | 8  | SHORT  | Value converter class
value.converter.plugin.version     | LOW    | Common | 9  | SHORT  | Value converter version
header.converter                   | LOW    | Common | 10 | SHORT  | Header converter class
header.converter.plugin.version    | LOW    | Common | 11 | SHORT  | Header converter version
transforms                         | LOW    | Transforms | 12 | LONG   | Transforms
predicates                         | LOW    | Predicates | 13 | LONG   | Predicates
config.action.reload               | LOW    | Common | 14 | MEDIUM | Reload Action
errors.retry.timeout               | MEDIUM | Error Handling | 1 | MEDIUM | Retry Timeout for Errors
errors.retry.delay.max.ms          | MEDIUM | Error Handling | 2 | MEDIUM | Maximum Delay Between Retries for Errors
errors.tolerance                   | MEDIUM | Error Handling | 3 | SHORT  | Error Tolerance
errors.log.enable                  | MEDIUM | Error Handling | 4 | SHORT  | Log Errors
errors.log.include.messages        | MEDIUM | Error Handling | 5 | SHORT  | Log Error Details
errors.deadletterqueue.topic.name  | MEDIUM | Error Handling | 6 | MEDIUM | Dead Letter Queue Topic Name
errors.deadletterqueue.context.headers.enable | MEDIUM | Error Handling | 7 | MEDIUM | Enable Error Context Headers
topic.creation.groups              | LOW    | Topic Creation | 1 | LONG   | Topic Creation Groups
exactly.once.support               | MEDIUM | Exactly Once Support | 2 | SHORT | Exactly once support
transaction.boundary               | MEDIUM | Exactly Once Support | 3 | SHORT | Transaction Boundary
transaction.boundary.interval.ms   | LOW    | Exactly Once Support | 4 | SHORT | Transaction boundary interval
offsets.storage.topic              | LOW    | offsets.topic | 1 | LONG | Offsets topic
"""


def _shown(row: str, settings: Mapping[str, Setting] = _SETTINGS) -> Definition:
    name, importance, group, order, width, title = map(str.strip, row.split("|"))
    return Definition(name, settings[name], title, importance, group, int(order), width)


COMMON = tuple(map(_shown, _SHOWN.strip().splitlines()))

#: What a sink has in another way than a source, or alone.
_OF_SINKS = {
    "errors.retry.timeout": Setting(
        int, 0, -1, "How long, in ms, a record is tried again where its converter's registry is away; -1 for ever."
    ),
    "errors.retry.delay.max.ms": Setting(int, 60_000, 1, "The longest pause between two tries, in ms."),
    "errors.deadletterqueue.topic.name": Setting(
        str, "", documentation="The topic for records that are left out, as they were read."
    ),
    "errors.deadletterqueue.topic.replication.factor": Setting(
        int, 3, 1, "The replication factor of the dead-letter topic, if it is made.", at_most=INT_MAX, also=-1
    ),
    "topics": Setting(list, (), documentation="The topics to read. Give this or topics.regex."),
    "topics.regex": Setting(
        str, "", documentation="Topics whose whole name this pattern of Python matches. Give this or topics."
    ),
}
_SHOWN_OF_SINKS = """
topics                             | HIGH   | Common | 4  | LONG   | Topics
topics.regex                       | HIGH   | Common | 4  | LONG   | Topics regex
errors.deadletterqueue.topic.name  | MEDIUM | Error Handling | 6 | MEDIUM | Dead Letter Queue Topic Name
errors.deadletterqueue.topic.replication.factor | MEDIUM | Error Handling | 7 | MEDIUM | \
Dead Letter Queue Topic Replication Factor
errors.deadletterqueue.context.headers.enable | MEDIUM | Error Handling | 8 | MEDIUM | Enable Error Context Headers
"""
_LAST_OF_BOTH = "errors.log.include.messages"


def _of_sinks() -> Iterator[Definition]:
    for one in COMMON:
        yield replace(one, setting=_OF_SINKS.get(one.name, one.setting))
        if one.name == _LAST_OF_BOTH:
            break
    yield from (_shown(row, {**_SETTINGS, **_OF_SINKS}) for row in _SHOWN_OF_SINKS.strip().splitlines())


SINK = tuple(_of_sinks())
