"""The options of ``KafkaSink`` (DESIGN section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.settings import missing
from semel.settings.fields import read_fields, setting, table_of
from semel.spark.options import group_of, kafka_properties, option_texts, without_source_options
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.transaction.transactional_id import check_prefix

__all__ = ["SinkOptions"]

_MISMATCH = "checkpoint:"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Options of a sink. ``properties`` are Kafka's, without their prefix, checked."""

    properties: Mapping[str, str] = field(repr=False)
    group: str | None
    topic: str | None = setting(str, None)
    topics: tuple[str, ...] = setting(list, ())
    prefix: str = setting(str, "", name="transactionalIdPrefix")
    progress_topic: str = setting(str, DEFAULT_TOPIC, name="progressTopic")
    delivery: str = setting(str, "exactly_once", one_of=("exactly_once", "at_least_once"))
    partitioner: str = setting(str, "default", one_of=("default", "any"))
    retries: int = setting(int, 3, 0, name="maxBatchRetries")
    override: str | None = setting(str, None, name="onProgressMismatch")
    few_records: int = setting(int, 60_000, 1, name="minRecordsPerPartition")

    @classmethod
    def parse(cls, given: Mapping[str, object], *, may_double: bool = True) -> SinkOptions:
        """Read options. Raises :class:`ConfigError` for what is unknown, malformed or contradictory.

        ``may_double`` is True for a sink that offers ``delivery=at_least_once``.
        """
        given = without_source_options(given)
        properties = kafka_properties(given)
        values = read_fields(cls, option_texts(given, table_of(cls)))
        values |= {"topics": tuple(dict.fromkeys(values["topics"])), "override": _override(values["override"])}
        options = cls(properties=properties, group=group_of(properties), **values)
        options._check(may_double=may_double)
        ClientConfig.parse(properties, "kafka.")
        return options

    def _check(self, *, may_double: bool) -> None:
        if self.exactly_once and not self.prefix:
            own = "Give each query one of its own."
            raise missing(
                "transactionalIdPrefix",
                "Nothing was written.",
                "It names the query for good, and its progress is kept under it. "
                + (f"(1) {own} (2) Or ask for delivery=at_least_once." if may_double else own),
            )
        if self.exactly_once:
            check_prefix(self.prefix)
        if self.topic is not None and self.topics:
            raise ConfigError(
                "topic and topics were both given. Nothing was written. Give one of them: topic sends every row"
                " there, topics lists what a topic column may name.",
                tag="WRONG_VALUE",
            )
        if self.exactly_once and self.progress_topic in (*self.topics, self.topic):
            raise ConfigError(
                f"{self.progress_topic!r} is the topic of the progress, so rows cannot be written there. Nothing was"
                " written. Name another topic for the rows, or another progressTopic.",
                tag="PROGRESS_TOPIC",
            )

    @property
    def exactly_once(self) -> bool:
        """True unless ``delivery`` says otherwise."""
        return self.delivery == "exactly_once"

    @property
    def any_partition(self) -> bool:
        """True if rows may go to any partition, whatever their key is."""
        return self.partitioner == "any"

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
