"""The options of ``KafkaSink`` (DESIGN section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.spark.options import group_of, kafka_properties, known_names, number, one_of
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.transaction.transactional_id import check_prefix

__all__ = ["SinkOptions"]

_SINK = (
    "topic",
    "topics",
    "transactionalIdPrefix",
    "progressTopic",
    "delivery",
    "partitioner",
    "maxBatchRetries",
    "onProgressMismatch",
)
_MISMATCH = "checkpoint:"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Options of a sink. ``properties`` are Kafka's, without their prefix, checked."""

    properties: Mapping[str, str] = field(repr=False)
    topic: str | None
    topics: tuple[str, ...]
    prefix: str
    progress_topic: str
    exactly_once: bool
    any_partition: bool
    retries: int
    override: str | None
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
        ClientConfig.parse(properties, "kafka.")
        return cls(
            properties=properties,
            topic=options.get("topic"),
            topics=topics,
            prefix=prefix,
            progress_topic=progress_topic,
            exactly_once=exactly_once,
            any_partition=one_of(options, "partitioner", "default", "any") == "any",
            retries=number(options, "maxBatchRetries", 3),
            override=_override(options.get("onProgressMismatch")),
            group=group,
        )

    @property
    def outputs(self) -> tuple[str, ...]:
        """The topics that may be written."""
        return (self.topic,) if self.topic is not None else self.topics


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
