"""The options of ``format("semel")``: those of Spark's ``kafka`` source, with its names, meanings and defaults (DESIGN
section 3).

Ours are ``startingOffsets=committed`` with ``transactionalIdPrefix`` and ``progressTopic`` (PROTOCOL 6),
``minRecordsPerPartition`` and ``timestampOverflow``. Like Spark's source, a time wins over offsets where both are
given, and a time for all partitions over one for each. What steers a JVM consumer only is accepted and named in a
warning; what would contradict how Spark keeps offsets is refused. Not promised: that what was asked for exists;
:mod:`semel.spark.source.topics` looks.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from semel.config import MEANINGLESS, ClientConfig
from semel.errors import ConfigError
from semel.read import AtOffsets, AtTimestamp, Earliest, EndSpec, Latest, StartSpec
from semel.records.timestamps import TimestampOverflow
from semel.settings import Setting, read_settings
from semel.settings.fields import read_fields, setting, table_of
from semel.settings.unused import warn_of_unused
from semel.spark.jvm.versions.planner import Limits
from semel.spark.options import group_of, kafka_properties, option_texts
from semel.spark.source.selection import SELECTIONS, Selection, malformed, read_json, selection_of
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.transaction.transactional_id import check_prefix

__all__ = ["Resume", "SourceOptions", "Start"]

log = logging.getLogger("semel.spark")

_ENDINGS = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_TRIGGERS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
#: Retries, poll times and group names of Spark's own consumers: there are none here.
_IGNORED = ("groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs")
_AT_LEAST_1 = Setting(int, None, 1)
_TEXT = Setting(str, None)
#: Options that several fields are made of.
_PARTS = {
    **dict.fromkeys(SELECTIONS, _TEXT),
    "startingOffsets": Setting(str, ""),
    "startingTimestamp": Setting(int, None, 0),
    "startingOffsetsByTimestamp": _TEXT,
    "startingOffsetsByTimestampStrategy": Setting(str, "error", one_of=("error", "latest")),
    "endingOffsets": Setting(str, ""),
    "endingTimestamp": Setting(int, None, 0),
    "endingOffsetsByTimestamp": _TEXT,
    "maxOffsetsPerTrigger": _AT_LEAST_1,
    "minOffsetsPerTrigger": _AT_LEAST_1,
    "maxTriggerDelay": Setting(str, "15m"),
    "transactionalIdPrefix": _TEXT,
    **dict.fromkeys(_IGNORED, _TEXT),
}
_REFUSED = {
    "auto.offset.reset": "where to start is startingOffsets (earliest, latest, committed or offsets), and a restarted"
    " query resumes where it was",
    "enable.auto.commit": "offsets are committed by KafkaSink, in its transaction, to kafka.group.id",
    "key.deserializer": "keys come as binary: cast them in the DataFrame",
    "value.deserializer": "values come as binary: cast them in the DataFrame",
    "interceptor.classes": "there is no JVM consumer that could be intercepted",
}
#: Unless it is set. Kafka's default of 1 MiB is for consumers that ask for many partitions at once; a task asks for
#: one, and each answer costs about 1 ms beside its rows (measured: 25 to 40 % less of the processor's time with 4 MiB,
#: nothing more with 16).
_FETCH_BYTES = 4 << 20
_LATEST, _EARLIEST = -1, -2
_UNITS_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Resume:
    """The start at the committed progress of ``prefix``, or else at the offsets of ``group``."""

    prefix: str | None
    progress_topic: str
    group: str | None


Start = StartSpec | Resume


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Options of a source.

    ``starting`` and ``ending`` are None where nothing was: see :meth:`for_stream` and :meth:`for_batch`.
    """

    config: ClientConfig
    group: str | None
    selection: Selection
    starting: Start | None
    ending: EndSpec | None
    limits: Limits
    given: frozenset[str]
    progress_topic: str = setting(str, DEFAULT_TOPIC, name="progressTopic")
    min_partitions: int | None = setting(int, None, 1, name="minPartitions")
    max_records: int | None = setting(int, None, 1, name="maxRecordsPerPartition")
    # offsets that are worth a task of their own: it costs 20 to 40 ms in Spark and Python, and reads this many in 2; a
    # function of the user's may take long for each row, so it is not more
    min_records: int = setting(int, 2_000, 1, name="minRecordsPerPartition")
    fail_on_data_loss: bool = setting(bool, True, name="failOnDataLoss")
    headers: bool = setting(bool, False, name="includeHeaders")
    timestamp_overflow: TimestampOverflow = setting(str, "fail", name="timestampOverflow", one_of=("fail", "null"))

    @classmethod
    def parse(cls, given: Mapping[str, object], *, warn: bool = False) -> SourceOptions:
        """Read options. Raises :class:`ConfigError` for what is unknown, malformed or contradictory; ``warn`` names
        what means nothing here.

        Spark makes a source in several processes, so it warns in one of them only.
        """
        properties = kafka_properties(given)
        texts = option_texts(given, {**table_of(cls), **_PARTS})
        options = read_settings(_PARTS, texts)
        values = read_fields(cls, texts)
        _refuse(properties)
        group = group_of(properties)
        if warn:
            warn_of_unused("Spark's own Kafka consumers", [name for name in _IGNORED if name in texts])
            _name_split(texts)
        else:
            properties = {name: value for name, value in properties.items() if name not in MEANINGLESS}
        properties.setdefault("max.partition.fetch.bytes", str(_FETCH_BYTES))
        return cls(
            config=ClientConfig.parse(properties, "kafka."),
            group=group,
            selection=selection_of({name: options[name] for name in SELECTIONS if options[name] is not None}),
            starting=_starting(options, values["progress_topic"], group),
            ending=_ending(options),
            limits=_limits(options),
            given=frozenset(texts),
            **values,
        )

    @property
    def read_committed(self) -> bool:
        """True if rows of open and aborted transactions stay hidden."""
        return self.config.isolation_level == "read_committed"

    def for_stream(self) -> Start:
        """Return where a new streaming query starts. Raise :class:`ConfigError` for options of batch queries."""
        endings = [name for name in _ENDINGS if name in self.given]
        if endings:
            raise ConfigError(
                f"{endings[0]} is for batch queries: a streaming query has no end. Nothing was read. Remove it."
            )
        return self.starting if self.starting is not None else Latest()

    def for_batch(self) -> tuple[Start, EndSpec]:
        """Return where a batch query starts and ends. Raise :class:`ConfigError` if that leaves nothing to read."""
        start = self.starting if self.starting is not None else Earliest()
        end = self.ending if self.ending is not None else Latest()
        if isinstance(start, Latest) or (isinstance(start, AtOffsets) and _LATEST in _numbers(start.offsets)):
            raise ConfigError(
                "a batch query cannot start at the latest offset: nothing comes after it. Nothing was read."
                " Change startingOffsets."
            )
        if isinstance(start, AtOffsets) and isinstance(end, AtOffsets):
            _check_pair(start.offsets, end.offsets, "offset")
        if isinstance(start, AtTimestamp) and isinstance(end, AtTimestamp):
            _check_times(start.timestamp, end.timestamp)
        ignored = [name for name in _TRIGGERS if name in self.given]
        if ignored:
            log.warning("a batch query has no triggers, so these options change nothing: %s", ", ".join(ignored))
        return start, end


def _refuse(properties: Mapping[str, str]) -> None:
    for name, reason in _REFUSED.items():
        if name in properties:
            raise ConfigError(
                f"kafka.{name} cannot be set on a source: {reason}. Nothing was read. Remove it.", tag="WRONG_VALUE"
            )


def _name_split(names: Collection[str]) -> None:
    given = [name for name in ("minPartitions", "maxRecordsPerPartition") if name in names]
    if given:
        log.warning(
            "with %s several tasks may read one source partition: the order of its rows is not guaranteed",
            " and ".join(given),
        )


# ---- where to start and end


def _starting(options: Mapping[str, Any], progress_topic: str, group: str | None) -> Start | None:
    by_time = _by_time(options, "starting", options["startingOffsetsByTimestampStrategy"])
    text = options["startingOffsets"].strip()
    if by_time is not None or not text:
        return by_time
    match text.lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
        case "committed":
            return _resume(options["transactionalIdPrefix"], progress_topic, group)
    return AtOffsets(_partitions("startingOffsets", text, least=_EARLIEST))


def _resume(prefix: str | None, progress_topic: str, group: str | None) -> Resume:
    if prefix is None and group is None:
        raise ConfigError(
            "startingOffsets=committed needs transactionalIdPrefix or kafka.group.id. Nothing was read. Name the prefix"
            " of the sink, or the group."
        )
    return Resume(check_prefix(prefix) if prefix is not None else None, progress_topic, group)


def _ending(options: Mapping[str, Any]) -> EndSpec | None:
    by_time = _by_time(options, "ending", "latest")
    text = options["endingOffsets"].strip()
    if by_time is not None or not text:
        return by_time
    if text.lower() == "latest":
        return Latest()
    if text.lower() == "earliest":
        raise ConfigError(
            "reading cannot end at the earliest offset. Nothing was read. Give endingOffsets as latest, or an offset"
            " for each partition."
        )
    return AtOffsets(_partitions("endingOffsets", text, least=_LATEST))


def _by_time(options: Mapping[str, Any], side: str, no_match: Literal["error", "latest"]) -> AtTimestamp | None:
    for_all = options[f"{side}Timestamp"]
    if for_all is not None:
        return AtTimestamp(for_all, no_match)
    name = f"{side}OffsetsByTimestamp"
    return None if options[name] is None else AtTimestamp(_partitions(name, options[name], least=0), no_match)


def _partitions(name: str, text: str, *, least: int) -> dict[str, dict[int, int]]:
    example = '{"topic":{"0":23,"1":-1}}' if least < 0 else '{"topic":{"0":1700000000000}}'
    value = read_json(name, text, example)
    try:
        parsed = {topic: {int(index): number for index, number in row.items()} for topic, row in value.items()}
    except (AttributeError, ValueError):
        raise malformed(name, text, example) from None
    flat = [(index, number) for row in parsed.values() for index, number in row.items()]
    if not flat or not all(index >= 0 and type(number) is int and number >= least for index, number in flat):
        raise malformed(name, text, example)
    return parsed


def _numbers(given: Mapping[str, Mapping[int, int]]) -> list[int]:
    return [number for row in given.values() for number in row.values()]


def _check_times(start: int | Mapping[str, Mapping[int, int]], end: int | Mapping[str, Mapping[int, int]]) -> None:
    if isinstance(start, int) and isinstance(end, int):
        _check_pair({"": {0: start}}, {"": {0: end}}, "timestamp")
    elif not isinstance(start, int) and not isinstance(end, int):
        _check_pair(start, end, "timestamp")


def _check_pair(start: Mapping[str, Mapping[int, int]], end: Mapping[str, Mapping[int, int]], what: str) -> None:
    """Check that both sides have the same partitions, and that no end lies before its start."""
    starts, ends = (
        {(topic, index): n for topic, row in side.items() for index, n in row.items()} for side in (start, end)
    )
    if starts.keys() != ends.keys():
        topic, index = min(starts.keys() ^ ends.keys())
        raise ConfigError(
            f"{topic}-{index} has its {what} on one side only (where to start, where to end). Nothing was read. Name"
            " it on both."
        )
    for (topic, index), first in starts.items():
        if 0 <= ends[topic, index] < first:
            named = f"{topic}-{index} starts" if topic else "reading starts"
            raise ConfigError(
                f"{named} at {what} {first} and ends before that, at {ends[topic, index]}. Nothing was read. Give an"
                " end after the start."
            )


# ---- numbers


def _limits(options: Mapping[str, Any]) -> Limits:
    most, least = options["maxOffsetsPerTrigger"], options["minOffsetsPerTrigger"]
    if most is not None and least is not None and least > most:
        raise ConfigError(
            f"minOffsetsPerTrigger={least} is above maxOffsetsPerTrigger={most}: no batch could be made. Nothing was"
            " read. Lower it."
        )
    return Limits(most, least, _duration_ms(options["maxTriggerDelay"]))


def _duration_ms(text: str) -> float:
    match = re.fullmatch(r"(\d{1,15})\s*([a-z]*)", text.strip().lower())
    if match is None or (match[2] or "ms") not in _UNITS_MS:
        raise ConfigError(
            f"maxTriggerDelay={text} is no length of time. Nothing was read. Give it like 500ms, 30s, 15m or 1h."
        )
    return int(match[1]) * _UNITS_MS[match[2] or "ms"]
