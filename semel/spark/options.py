"""Options that the source and the sink share: names and values as Spark and Kafka users know them.

Names are matched without regard to case, as everywhere in Spark; ``kafka.`` properties go to
:class:`~semel.config.ClientConfig`. What is not known is refused with the nearest known name, before anything is read
or written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from semel.config import known_properties
from semel.errors import ConfigError
from semel.settings import Setting, missing, nearest, unknown
from semel.settings.unused import Names, warn_of_unused

__all__ = ["group_of", "kafka_properties", "option_texts", "without_source_options"]

_SERVERS = "kafka.bootstrap.servers"
#: Options of Spark's Kafka source. Its sink passes over them, so users give both ends the same options.
_OF_THE_SOURCE = Names(
    "assign subscribe subscribePattern startingOffsets startingTimestamp startingOffsetsByTimestamp"
    " startingOffsetsByTimestampStrategy endingOffsets endingTimestamp endingOffsetsByTimestamp failOnDataLoss"
    " includeHeaders minPartitions maxRecordsPerPartition maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay"
    " groupIdPrefix kafkaConsumer.pollTimeoutMs fetchOffset.numRetries fetchOffset.retryIntervalMs"
)


def kafka_properties(given: Mapping[str, object]) -> dict[str, str]:
    """Return the ``kafka.`` options without their prefix. Spark's own connector lower-cases them too."""
    found = {
        name[6:].lower(): str(value)
        for name, value in given.items()
        if name.lower().startswith("kafka.") and value is not None
    }
    if not found.get("bootstrap.servers"):
        near = next((name for name in given if _is_servers(name)), None)
        hint = f" {near!r} was given: did you mean kafka.bootstrap.servers?" if near else ""
        raise missing(_SERVERS, remedy=f"Give it as host:port[,host:port].{hint}")
    return found


def _is_servers(name: str) -> bool:
    """Return whether a name is another spelling of ``kafka.bootstrap.servers``."""
    plain = name.lower().replace("_", ".").removeprefix("kafka.")
    return name.lower() != _SERVERS and bool(nearest(plain, ["bootstrap.servers"]))


def option_texts(given: Mapping[str, object], table: Mapping[str, Setting]) -> dict[str, object]:
    """Return the options that are given, under the names of the table. Kafka's are left out."""
    canonical = {name.lower(): name for name in table}
    found: dict[str, object] = {}
    for name, value in given.items():
        if name.lower().startswith("kafka."):
            continue
        if name.lower() not in canonical:
            raise unknown(name, table, what="option", hint=_hint(name, table))
        if value is not None:
            found[canonical[name.lower()]] = value
    return found


def without_source_options(given: Mapping[str, object]) -> dict[str, object]:
    """Return the options of a sink without those of Spark's Kafka source, which are named in a warning."""
    of_the_source = {name.lower(): name for name in _OF_THE_SOURCE.exact}
    warn_of_unused(
        "Spark's Kafka source", [of_the_source[name.lower()] for name in given if name.lower() in of_the_source]
    )
    return {name: value for name, value in given.items() if name.lower() not in of_the_source}


def _hint(name: str, known: Iterable[str]) -> str:
    kafka = ["group.id", *known_properties()]
    if name.lower().replace("_", ".") in kafka:
        return f"; did you mean kafka.{name.lower().replace('_', '.')}?"
    return nearest(name, known) or nearest(name, kafka, "kafka.")


def group_of(properties: dict[str, str]) -> str | None:
    """Take the group out of Kafka's properties: it is no matter of the connection."""
    group = properties.pop("group.id", None)
    if group is not None and not group.strip():
        raise ConfigError(
            "kafka.group.id is empty. Nothing was read or written. Name a group of this query alone, or take the"
            " option out.",
            tag="WRONG_VALUE",
        )
    return group
