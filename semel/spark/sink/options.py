"""The options of ``KafkaSink`` (DESIGN section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.settings import Setting, missing
from semel.spark.options import group_of, kafka_properties, read_options
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.transaction.transactional_id import check_prefix

__all__ = ["SinkOptions"]

OPTIONS = {
    "topic": Setting(str, None),
    "topics": Setting(list, ()),
    "transactionalIdPrefix": Setting(str, ""),
    "progressTopic": Setting(str, DEFAULT_TOPIC),
    "delivery": Setting(str, "exactly_once", one_of=("exactly_once", "at_least_once")),
    "partitioner": Setting(str, "default", one_of=("default", "any")),
    "maxBatchRetries": Setting(int, 3, 0),
    "onProgressMismatch": Setting(str, None),
}
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
        options, _ = read_options(given, OPTIONS)
        exactly_once = options["delivery"] == "exactly_once"
        prefix = options["transactionalIdPrefix"]
        if exactly_once:
            if not prefix:
                raise missing(
                    "transactionalIdPrefix",
                    "Nothing was written.",
                    "It names the query for good, and its progress is kept under it. (1) Give each query one of its"
                    " own. (2) Or ask for delivery=at_least_once.",
                )
            check_prefix(prefix)
        topic, topics = options["topic"], tuple(dict.fromkeys(options["topics"]))
        if topic is not None and topics:
            raise ConfigError(
                "topic and topics were both given. Nothing was written. Give one of them: topic sends every row"
                " there, topics lists what a topic column may name.",
                tag="WRONG_VALUE",
            )
        progress_topic = options["progressTopic"]
        if exactly_once and progress_topic in (*topics, topic):
            raise ConfigError(
                f"{progress_topic!r} is the topic of the progress, so rows cannot be written there. Nothing was"
                " written. Name another topic for the rows, or another progressTopic.",
                tag="PROGRESS_TOPIC",
            )
        group = group_of(properties)
        ClientConfig.parse(properties, "kafka.")
        return cls(
            properties=properties,
            topic=topic,
            topics=topics,
            prefix=prefix,
            progress_topic=progress_topic,
            exactly_once=exactly_once,
            any_partition=options["partitioner"] == "any",
            retries=options["maxBatchRetries"],
            override=_override(options["onProgressMismatch"]),
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
            f"onProgressMismatch={value:.200} is not checkpoint:<token>. Nothing was written. Copy the token from the"
            " refusal that it answers.",
            tag="WRONG_VALUE",
        )
    return value[len(_MISMATCH) :]
