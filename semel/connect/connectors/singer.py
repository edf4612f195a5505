"""``SingerSource``: the records of a Singer tap, a program that writes SCHEMA, RECORD and STATE messages.

A STATE says that all records before it were given. It is the boundary: a poll ends at one, its records and the STATE
are committed together, and after a crash the tap is started with the last committed STATE. Offsets of Connect are flat,
so it is kept as text: the source partition is ``{"tap": program}``, its offset ``{"state": JSON}``.

A tap that ends is started again after ``poll.interval.ms``. One that was killed has its task start again; one that ends
with an error fails it. Records after the last STATE of a run belong to nothing and are refused: the tap would give
them again in each run. Only programs that the worker's file names in ``semel.programs.allowed`` are run.

Not promised: that a tap gives only what comes after its STATE. Many compare with "at least", and give the records of
their bookmark, or all of a file that has grown, again in each run. Nor that it gives the same for one STATE. Other
messages, such as ACTIVATE_VERSION, are passed over.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar

from semel.connect.api import Offset, Partition, Polled, Setting, SourceConnector, SourceRecord, SourceTask, TaskContext
from semel.connect.connectors.singer_schema import StreamSchema, stream_schema
from semel.connect.connectors.singer_tap import Tap
from semel.errors import ConfigError, Retriable

__all__ = ["SingerSource", "SingerSourceTask"]

#: How long a poll waits for a STATE.
_POLL_S = 1.0
_FORMATS = ("struct", "schema", "text")


def _json_text(setting: str, text: str) -> str:
    try:
        json.loads(text or "{}")
    except ValueError:
        raise ConfigError(
            f"{setting} is not JSON. Nothing was read. Correct it; its text is not repeated here.", tag="WRONG_VALUE"
        ) from None
    return text


#: Messages that say nothing of rows.
_PASSED_OVER = ("ACTIVATE_VERSION",)


class SingerSource(SourceConnector):
    """Runs one tap, in one task."""

    config: ClassVar[Mapping[str, type | Setting]] = {
        "tap": Setting(str, program=True, documentation="The program, as the worker's file allows it."),
        "tap.config": Setting(str, default="", secret=True, documentation="What it reads by --config, as JSON."),
        "tap.catalog": Setting(str, default="", documentation="What it reads by --catalog, as JSON."),
        "topic.prefix": Setting(str, documentation="Before the name of each stream."),
        "format": Setting(
            str,
            default="struct",
            one_of=_FORMATS,
            documentation="A record without a schema, with the tap's, or as text.",
        ),
        "poll.interval.ms": Setting(int, default=60_000, at_least=0, documentation="Between two runs of the tap."),
        "batch.max.rows": Setting(
            int, default=2_000, at_least=1, documentation="Records after which a STATE ends a poll."
        ),
        "state.max.rows": Setting(
            int, default=500_000, at_least=1, documentation="Records without a STATE that are kept in memory."
        ),
    }

    def tasks(self, config: Mapping[str, Any], max_tasks: int) -> Sequence[Mapping[str, Any]]:
        """Return one task; the settings of the tap must be JSON."""
        for setting in ("tap.config", "tap.catalog"):
            _json_text(setting, config[setting])
        return [config]

    def task(self) -> SourceTask:
        """Make its task."""
        return SingerSourceTask()

    def alter_offsets(self, config: Mapping[str, Any], offsets: Sequence[tuple[Partition, Offset]]) -> bool:
        """Check that they are states of this tap."""
        for partition, offset in offsets:
            if dict(partition) != {"tap": config["tap"]}:
                raise ValueError("Partition objects should contain the key 'tap' alone, with this connector's tap")
            if offset is not None:
                if offset.keys() != {"state"} or not isinstance(offset["state"], str):
                    raise ValueError(
                        "Offset objects should either be null or contain the key 'state', with JSON as text"
                    )
                json.loads(offset["state"])
        return True

    def exactly_once_support(self, config: Mapping[str, Any]) -> bool | None:
        """Say that it is not known: it depends on the tap, which may give the records of its STATE again."""
        return None


class SingerSourceTask(SourceTask):
    """Reads what the tap writes."""

    def start(self, config: Mapping[str, Any], context: TaskContext) -> None:
        """Start where the committed STATE says, with the first poll."""
        self._config = config
        self._partition = {"tap": config["tap"]}
        self._state: str | None = (context.offset(self._partition) or {}).get("state")
        self._tap: Tap | None = None
        self._due = 0.0
        self._keys: dict[str, list[str]] = {}
        self._schemas: dict[str, StreamSchema] = {}
        #: Records after the last STATE, and those before it, which are given next.
        self._open: list[SourceRecord] = []
        self._whole: list[SourceRecord] = []

    def poll(self) -> Polled:
        """Give the records up to a STATE, if there is one within a second."""
        if self._tap is None:
            if time.monotonic() < self._due:
                return None
            self._tap = Tap(self._config["tap"], self._config["tap.config"], self._config["tap.catalog"], self._state)
        end = time.monotonic() + _POLL_S
        while len(self._whole) < self._config["batch.max.rows"]:
            line = self._tap.line(end - time.monotonic()) if time.monotonic() < end else None
            if line is None:
                if self._tap.ended and not self._whole:
                    self._end(self._tap)
                break
            self._take(line)
        given, self._whole = self._whole, []
        offset = {"state": self._state}
        return [
            SourceRecord(
                one.topic,
                one.value,
                self._partition,
                offset,
                key=one.key,
                timestamp=one.timestamp,
                key_schema=one.key_schema,
                value_schema=one.value_schema,
            )
            for one in given
        ]

    def stop(self) -> None:
        """End the tap."""
        if self._tap is not None:
            self._tap.close()
            self._tap = None

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line, parse_float=_exact)
            kind = message["type"]
            if kind == "RECORD":
                self._open.append(self._record(message))
            elif kind == "STATE":
                self._state = json.dumps(message["value"], separators=(",", ":"))
                self._whole += self._open
                self._open = []
            elif kind == "SCHEMA":
                self._describe(message)
            elif kind not in _PASSED_OVER:  # a BATCH, for example: its records are in files
                raise _unknown_kind(self._config["tap"], str(kind))
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"tap {self._config['tap']} wrote a line that is no message of Singer ({type(error).__name__}). Its"
                " records after the last STATE are not written. Does it print something else to its output?",
                tag="TAP_MESSAGE",
            ) from error
        if len(self._open) > self._config["state.max.rows"]:
            raise ConfigError(
                f"tap {self._config['tap']} gave {len(self._open)} records without a STATE. None of them is written."
                " Have it write a STATE more often, or raise state.max.rows, which takes memory.",
                tag="TAP_NO_STATE",
            )

    def _describe(self, message: Mapping[str, Any]) -> None:
        """Take a SCHEMA. It is that of the records after it."""
        stream, keys = message["stream"], list(message.get("key_properties") or ())
        self._keys[stream] = keys
        if self._config["format"].lower() == "schema":
            self._schemas[stream] = stream_schema(stream, message["schema"], keys)

    def _record(self, message: Mapping[str, Any]) -> SourceRecord:
        record, stream = message["record"], message["stream"]
        topic = f"{self._config['topic.prefix']}{stream}"
        if self._config["format"].lower() == "schema":
            return self._by_schema(topic, record, self._schemas[stream])
        names = self._keys.get(stream)
        key: Any = {name: record.get(name) for name in names} if names else None
        if self._config["format"].lower() == "text":
            record, key = _text(record), None if key is None else _text(key)
        return SourceRecord(topic, record, self._partition, None, key=key)

    def _by_schema(self, topic: str, record: Mapping[str, Any], schemas: StreamSchema) -> SourceRecord:
        shaped = schemas.shape(record)
        return SourceRecord(
            topic,
            shaped,
            self._partition,
            None,
            key=schemas.key_of(shaped),
            key_schema=schemas.key,
            value_schema=schemas.value,
        )

    def _end(self, tap: Tap) -> None:
        """See how the tap ended, and when it starts again."""
        self._tap = None
        status, said = tap.close()
        left, self._open = len(self._open), []
        name = self._config["tap"]
        if status < 0:
            raise Retriable(
                f"tap {name} was killed by signal {-status}. Its records after the last STATE are not written. The"
                " task starts again from its committed STATE.",
                tag="TAP_KILLED",
            )
        if status:
            raise ConfigError(
                f"tap {name} ended with status {status}. Its records after the last STATE are not written. Fix the"
                f" cause, and restart the task: it resumes at its last committed STATE. Its last words: {said}",
                tag="TAP_FAILED",
            )
        if left:
            raise ConfigError(
                f"tap {name} ended with {left} records after its last STATE. They are not written: it would give them"
                " again in each run. Use a tap that writes a STATE at its end.",
                tag="TAP_NO_STATE",
            )
        self._due = time.monotonic() + self._config["poll.interval.ms"] / 1000


def _exact(text: str) -> float:
    """Return a number with a decimal point. Raise :class:`ConfigError` if it has more digits than a float."""
    number = float(text)
    if not math.isfinite(number) or Decimal(text) != Decimal(repr(number)):
        raise ConfigError(
            f"the tap wrote the number {text:.60}, which has more digits than a float. It would be written as"
            f" {number!r}: nothing after the last STATE is written. Have the tap write it as text (use_singer_decimal,"
            " for example).",
            tag="TAP_NUMBER",
        )
    return number


def _unknown_kind(tap: str, kind: str) -> ConfigError:
    return ConfigError(
        f"tap {tap} wrote a message of type {kind:.60}, which is not known here. What it stands for, and all after the"
        " last STATE, is not written. Have the tap write RECORD messages (no batch_config).",
        tag="TAP_MESSAGE",
    )


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
