"""Settings of a connector beside those of its class: Kafka Connect's names, types, defaults and groups.

REST shows them, and they say what is a known property.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from semel.connect.api import REQUIRED, Setting

__all__ = ["COMMON", "Definition", "as_text", "own_definition"]

_TYPES = {str: "STRING", int: "LONG", float: "DOUBLE", bool: "BOOLEAN", list: "LIST"}


@dataclass(frozen=True, slots=True)
class Definition:
    """One setting, as ``/connector-plugins/…/config`` shows it."""

    name: str
    display_name: str
    documentation: str
    type: str = "STRING"
    required: bool = False
    default: str | None = None
    importance: str = "MEDIUM"
    group: str | None = None
    order: int = -1
    width: str = "NONE"

    def shown(self) -> dict[str, Any]:
        """Its JSON."""
        return {
            "name": self.name,
            "type": self.type,
            "required": self.required,
            "default_value": self.default,
            "importance": self.importance,
            "documentation": self.documentation,
            "group": self.group,
            "order_in_group": self.order,
            "width": self.width,
            "display_name": self.display_name,
            "dependents": [],
        }


def own_definition(name: str, setting: Setting) -> Definition:
    """Return the definition of a setting of a connector's class."""
    default = None if setting.default in (REQUIRED, None) else as_text(setting.default)
    return Definition(
        name,
        name,
        setting.documentation,
        type="PASSWORD" if setting.secret else _TYPES[setting.kind],
        required=setting.default is REQUIRED,
        default="[hidden]" if setting.secret and default else default,
        importance="HIGH" if setting.default is REQUIRED else "MEDIUM",
    )


def as_text(value: Any) -> str:
    """Return a value as a properties file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


COMMON = (
    Definition(
        "name",
        "Connector name",
        "The connector's name. Its source offsets and transactional ids carry it.",
        required=True,
        importance="HIGH",
        group="Common",
        order=1,
        width="MEDIUM",
    ),
    Definition(
        "connector.class",
        "Connector class",
        "A Python class, as package.module.Class, or the name of a connector that semel brings.",
        required=True,
        importance="HIGH",
        group="Common",
        order=2,
        width="LONG",
    ),
    Definition(
        "connector.plugin.version",
        "Connector version",
        "Changes nothing: the version that is installed runs.",
        importance="MEDIUM",
        group="Common",
        order=3,
        width="MEDIUM",
    ),
    Definition(
        "tasks.max",
        "Tasks max",
        "How many tasks the connector may have.",
        type="INT",
        default="1",
        importance="HIGH",
        group="Common",
        order=4,
        width="SHORT",
    ),
    Definition(
        "tasks.max.enforce",
        "Enforce tasks max",
        "Changes nothing: more tasks than tasks.max are refused.",
        type="BOOLEAN",
        default="true",
        importance="LOW",
        group="Common",
        order=5,
        width="SHORT",
    ),
    Definition(
        "key.converter",
        "Key converter class",
        "How keys become bytes; the worker's unless it is given.",
        type="CLASS",
        importance="LOW",
        group="Common",
        order=6,
        width="SHORT",
    ),
    Definition(
        "key.converter.plugin.version",
        "Key converter version",
        "Changes nothing.",
        importance="LOW",
        group="Common",
        order=7,
        width="SHORT",
    ),
    Definition(
        "value.converter",
        "Value converter class",
        "How values become bytes; the worker's unless it is given.",
        type="CLASS",
        importance="LOW",
        group="Common",
        order=8,
        width="SHORT",
    ),
    Definition(
        "value.converter.plugin.version",
        "Value converter version",
        "Changes nothing.",
        importance="LOW",
        group="Common",
        order=9,
        width="SHORT",
    ),
    Definition(
        "header.converter",
        "Header converter class",
        "Headers are text or bytes here, and are written as they are. Converters that would change them are refused.",
        type="CLASS",
        importance="LOW",
        group="Common",
        order=10,
        width="SHORT",
    ),
    Definition(
        "header.converter.plugin.version",
        "Header converter version",
        "Changes nothing.",
        importance="LOW",
        group="Common",
        order=11,
        width="SHORT",
    ),
    Definition(
        "transforms",
        "Transforms",
        "Names of the transformations, in the order in which they are applied.",
        type="LIST",
        default="",
        importance="LOW",
        group="Transforms",
        order=12,
        width="LONG",
    ),
    Definition(
        "predicates",
        "Predicates",
        "Names of the predicates that transformations may use.",
        type="LIST",
        default="",
        importance="LOW",
        group="Predicates",
        order=13,
        width="LONG",
    ),
    Definition(
        "config.action.reload",
        "Reload Action",
        "Not there: values of config providers are read when a task starts.",
        default="restart",
        importance="LOW",
        group="Common",
        order=14,
        width="MEDIUM",
    ),
    Definition(
        "errors.retry.timeout",
        "Retry Timeout for Errors",
        "0: there are no retries, since a conversion that failed once fails again.",
        type="LONG",
        default="0",
        importance="MEDIUM",
        group="Error Handling",
        order=1,
        width="MEDIUM",
    ),
    Definition(
        "errors.retry.delay.max.ms",
        "Maximum Delay Between Retries for Errors",
        "Changes nothing.",
        type="LONG",
        default="60000",
        importance="MEDIUM",
        group="Error Handling",
        order=2,
        width="MEDIUM",
    ),
    Definition(
        "errors.tolerance",
        "Error Tolerance",
        "none: a record that cannot be converted stops the task. all: it is left out, and its offset counts.",
        default="none",
        importance="MEDIUM",
        group="Error Handling",
        order=3,
        width="SHORT",
    ),
    Definition(
        "errors.log.enable",
        "Log Errors",
        "Log each record that is left out.",
        type="BOOLEAN",
        default="false",
        importance="MEDIUM",
        group="Error Handling",
        order=4,
        width="SHORT",
    ),
    Definition(
        "errors.log.include.messages",
        "Log Error Details",
        "Log its topic with it.",
        type="BOOLEAN",
        default="false",
        importance="MEDIUM",
        group="Error Handling",
        order=5,
        width="SHORT",
    ),
    Definition(
        "errors.deadletterqueue.topic.name",
        "Dead Letter Queue Topic Name",
        "The topic for records that are left out. They are written in the transaction of their poll.",
        default="",
        importance="MEDIUM",
        group="Error Handling",
        order=6,
        width="MEDIUM",
    ),
    Definition(
        "errors.deadletterqueue.context.headers.enable",
        "Enable Error Context Headers",
        "Say in headers which record it was, and what was wrong.",
        type="BOOLEAN",
        default="false",
        importance="MEDIUM",
        group="Error Handling",
        order=7,
        width="MEDIUM",
    ),
    Definition(
        "topic.creation.groups",
        "Topic Creation Groups",
        "Groups of topics that are created with settings of their own.",
        type="LIST",
        default="",
        importance="LOW",
        group="Topic Creation",
        order=1,
        width="LONG",
    ),
    Definition(
        "exactly.once.support",
        "Exactly once support",
        "required: refuse the connector unless it promises exactly-once with this configuration.",
        default="requested",
        importance="MEDIUM",
        group="Exactly Once Support",
        order=2,
        width="SHORT",
    ),
    Definition(
        "transaction.boundary",
        "Transaction Boundary",
        "What a transaction holds: one poll, all of an interval, or what the connector decides.",
        default="poll",
        importance="MEDIUM",
        group="Exactly Once Support",
        order=3,
        width="SHORT",
    ),
    Definition(
        "transaction.boundary.interval.ms",
        "Transaction boundary interval",
        "How long a transaction of the boundary interval is; offset.flush.interval.ms unless it is given.",
        type="LONG",
        importance="LOW",
        group="Exactly Once Support",
        order=4,
        width="SHORT",
    ),
    Definition(
        "offsets.storage.topic",
        "Offsets topic",
        "A topic of its own for the offsets of this connector. They are copied to the worker's too.",
        importance="LOW",
        group="offsets.topic",
        order=1,
        width="LONG",
    ),
)
