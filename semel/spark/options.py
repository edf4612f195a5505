"""Options, as Spark and Kafka users know them, for the sink and (in :mod:`semel.spark.source.options`) for the source.

Names are matched without regard to case, as everywhere in Spark; ``kafka.`` properties go to
:class:`~semel.config.ClientConfig`. What is not known is refused with the nearest known name, before anything is read
or written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from semel.config import ClientConfig, nearest
from semel.errors import ConfigError
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.transaction.transactional_id import check_prefix

__all__ = ["SinkOptions", "kafka_properties", "known_names", "number", "one_of", "truth"]

_SINK = (
    "topic",
    "topics",
    "transactionalIdPrefix",
    "previousTransactionalIdPrefix",
    "progressTopic",
    "delivery",
    "partitioner",
    "maxBatchRetries",
    "onProgressMismatch",
    "acceptLateMarkers",
)
_MISMATCH = "checkpoint:"
#: Of a number: none that means anything has more, and Python reads no more than some thousand.
_DIGITS = 19


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a sink was told. ``properties`` are Kafka's, without their prefix, checked."""

    properties: Mapping[str, str] = field(repr=False)
    topic: str | None
    topics: tuple[str, ...]
    prefix: str
    previous: str | None
    progress_topic: str
    exactly_once: bool
    any_partition: bool
    retries: int
    override: str | None
    accept_late_markers: bool
    group: str | None

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> SinkOptions:
        """Read options. Raises :class:`ConfigError` for what is unknown, malformed or contradictory."""
        properties = kafka_properties(given)
        options = known_names(given, _SINK)
        exactly_once = one_of(options, "delivery", "exactly_once", "at_least_once") == "exactly_once"
        prefix = options.get("transactionalIdPrefix", "")
        if exactly_once:
            if not prefix:
                raise ConfigError(
                    "transactionalIdPrefix is missing. Nothing was written. It names the query for good, and its"
                    " progress is kept under it: give each query one of its own; or ask for delivery=at_least_once.",
                    tag="PREFIX_MISSING",
                )
            check_prefix(prefix)
            _check_not_itself(prefix, options.get("previousTransactionalIdPrefix"))
        topics = tuple(dict.fromkeys(name.strip() for name in options.get("topics", "").split(",") if name.strip()))
        if "topic" in options and topics:
            raise ConfigError(
                "topic and topics were both given. Nothing was written. Give one of them: topic sends every row"
                " there, topics lists what a topic column may name."
            )
        progress_topic = options.get("progressTopic", DEFAULT_TOPIC)
        if exactly_once and progress_topic in (*topics, options.get("topic")):
            raise ConfigError(
                f"{progress_topic!r} is the topic of the progress, so rows cannot be written there. Nothing was"
                " written. Name another topic for the rows, or another progressTopic.",
                tag="PROGRESS_TOPIC",
            )
        group = group_of(properties)
        ClientConfig.parse(properties)
        return cls(
            properties=properties,
            topic=options.get("topic"),
            topics=topics,
            prefix=prefix,
            previous=options.get("previousTransactionalIdPrefix"),
            progress_topic=progress_topic,
            exactly_once=exactly_once,
            any_partition=one_of(options, "partitioner", "default", "any") == "any",
            retries=number(options, "maxBatchRetries", 3),
            override=_override(options.get("onProgressMismatch")),
            accept_late_markers=truth(options, "acceptLateMarkers", False),
            group=group,
        )

    @property
    def outputs(self) -> tuple[str, ...]:
        """The topics that may be written."""
        return (self.topic,) if self.topic is not None else self.topics


def kafka_properties(given: Mapping[str, object]) -> dict[str, str]:
    """The ``kafka.`` options without their prefix. Spark's own connector lower-cases them too."""
    found = {name[6:].lower(): str(value) for name, value in given.items() if name.lower().startswith("kafka.")}
    if not found.get("bootstrap.servers"):
        alike = (name for name in given if name.lower().replace("_", ".").endswith("bootstrap.servers"))
        near = next((name for name in alike if name.lower() != "kafka.bootstrap.servers"), None)
        hint = f" {near!r} was given: did you mean kafka.bootstrap.servers?" if near else ""
        raise ConfigError(
            f"kafka.bootstrap.servers is missing. Nothing was read or written. Give it as host:port[,host:port].{hint}"
        )
    return found


def known_names(given: Mapping[str, object], known: tuple[str, ...]) -> dict[str, str]:
    """The other options, under their canonical names."""
    canonical = {name.lower(): name for name in known}
    found: dict[str, str] = {}
    for name, value in given.items():
        if name.lower().startswith("kafka."):
            continue
        if name.lower() not in canonical:
            hint = nearest(name, known) or "."
            raise ConfigError(
                f"{name:.200} is not a known option{hint} Nothing was read or written. Correct or remove it.",
                tag="UNKNOWN_OPTION",
            )
        if value is not None:
            found[canonical[name.lower()]] = str(value)
    return found


def group_of(properties: dict[str, str]) -> str | None:
    """Take the group out of Kafka's properties: it is no matter of the connection."""
    group = properties.pop("group.id", None)
    if group is not None and not group.strip():
        raise ConfigError(
            "kafka.group.id is empty. Nothing was read or written. Name a group of this query alone, or take the"
            " option out."
        )
    return group


def one_of(options: Mapping[str, str], name: str, *choices: str) -> str:
    """An option with a fixed choice of values; the first is the default."""
    value = options.get(name, choices[0]).strip().lower()
    if value not in choices:
        raise ConfigError(
            f"{name}={value} is none of {', '.join(choices)}. Nothing was read or written. Give one of them."
        )
    return value


def truth(options: Mapping[str, str], name: str, default: bool) -> bool:
    """An option that is true or false."""
    value = options.get(name, str(default)).strip().lower()
    if value not in ("true", "false"):
        raise ConfigError(f"{name}={value} is neither true nor false. Nothing was read or written. Give one of them.")
    return value == "true"


def number(options: Mapping[str, str], name: str, default: int, minimum: int = 0) -> int:
    """An option that is a whole number."""
    value = options.get(name, str(default)).strip()
    if not value.isdecimal() or len(value) > _DIGITS or int(value) < minimum:
        raise ConfigError(
            f"{name}={value:.200} is not a whole number of at least {minimum}. Nothing was read or written. Give one"
            " in digits."
        )
    return int(value)


def _check_not_itself(prefix: str, previous: str | None) -> None:
    if previous == prefix:
        raise ConfigError(
            f"previousTransactionalIdPrefix is {previous!r}, as transactionalIdPrefix is: the query would fence"
            " itself. Nothing was written. Leave it out, or name the prefix that the query had before.",
            tag="PREVIOUS_IS_ITSELF",
        )


def _override(value: str | None) -> str | None:
    if value is None:
        return None
    if not value.startswith(_MISMATCH) or len(value) == len(_MISMATCH):
        raise ConfigError(
            f"onProgressMismatch={value} is not checkpoint:<token>. Nothing was written. Copy the token from the"
            " refusal that it answers.",
            tag="MISMATCH_TOKEN",
        )
    return value[len(_MISMATCH) :]
