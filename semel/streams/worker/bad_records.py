"""Records of a task that cannot be read, worked on or written: left out and counted, and a dead letter each.

A letter goes out with the output, in the same transaction. It has the bytes of the record that the task was given, and
the headers of Kafka Streams (KIP-1034). One that is too large for its topic has the headers alone.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semel.errors import ConfigError, Unsupported
from semel.records.dead_letters import dead_letter, shown
from semel.serdes.serde import Serde, decode, to_python
from semel.streams.nodes.stream_join import StreamJoin
from semel.streams.rows import ORIGIN, UNFIT, timestamps
from semel.streams.topology.node import Source
from semel.streams.topology.topology import Topology

__all__ = ["BadRecords", "Refusal", "check_handlers"]

#: Errors at one record: a function failed, or what it returned does not fit.
_OF_A_RECORD = ("USER_FUNCTION", "SERDE")
_AT_SINK = ("SERDE", "RECORD_TOO_LARGE")
#: A trace must not make a letter too large for its topic.
_LONGEST_TRACE = 10_000


#: Returns why a topic would not take some rows, or None.
Refusal = Callable[[str, Any], ConfigError | None]


class BadRecords:
    """What becomes of them in one task. ``output`` takes letters."""

    def __init__(self, topology: Topology, output: Callable[[str, Any], None], refusal: Refusal | None = None) -> None:
        self._topology, self._output, self._refusal = topology, output, refusal
        self.handlers = topology.handlers
        #: The rows that are worked on, as they were read.
        self.source: Any = None
        #: The error of a sink that stops the task: no node before it may take it for its own.
        self.refused: ConfigError | None = None

    def readable(self, node: Source, rows: Any) -> Any:
        """Return the rows that fit the serialisations of a source. The others are left out."""
        if node.unpack is not None or not (self.handlers.reads_on or self.handlers.works_on):
            return rows
        wrong: dict[int, Exception] = {}
        for name, serde in (("value", node.value), ("key", node.key)):
            wrong.update(_unfit(rows[name], serde))
        if not wrong or not self.handlers.reads_on:
            return rows
        for at in sorted(wrong):
            self._leave_out(node.name, rows.slice(at, 1), wrong[at], "records that do not fit their serialisation")
        return rows.filter(pa.array([at not in wrong for at in range(rows.num_rows)]))

    def handles(self, error: ConfigError) -> bool:
        """Return whether a failure of a function costs its record alone."""
        return self.handlers.works_on and error.tag in _OF_A_RECORD and error is not self.refused

    def handles_at_sink(self, error: ConfigError) -> bool:
        """Return whether a row that cannot be written is left out."""
        return (
            self.handles(error) if error.tag == "USER_FUNCTION" else self.handlers.writes_on and error.tag in _AT_SINK
        )

    def check_fits(self, topic: str, records: Any) -> None:
        """Raise :class:`ConfigError` for records of which one is too large for its topic, if such are left out."""
        if self.handlers.writes_on and self._refusal is not None:
            refused = self._refusal(topic, records)
            if refused is not None:
                raise refused

    def failed(self, name: str, row: Any, error: ConfigError) -> bool:
        """Leave out the record of a row at which a node has failed, if that is asked for."""
        if self.handles(error):
            self.leave_out(name, row, error)
        return self.handles(error)

    def leave_out(self, name: str, row: Any, error: ConfigError) -> None:
        """Leave out the record that this row was made of."""
        self._leave_out(name, self._source_of(row), error.__cause__ or error, "records at which it failed")

    def _source_of(self, row: Any) -> Any:
        """Return the record as it was read. A row after an aggregation is returned as it is: it comes from many."""
        if self.source is None or any(name not in row.schema.names for name in ORIGIN):
            return row
        met = [pc.equal(self.source[name], row[name][0]) for name in ORIGIN]
        found = self.source.filter(pc.and_(pc.and_(met[0], met[1]), met[2]))
        return found if found.num_rows else row

    def _leave_out(self, name: str, record: Any, error: BaseException, what: str) -> None:
        self._topology.dropped.count(name, 1, what)
        topic = self.handlers.errors_dead_letter_queue_topic_name
        if topic is None:
            return
        (row,) = record.to_pylist()
        kind = type(error)
        context = {
            "__streams.errors.exception": f"{kind.__module__}.{kind.__qualname__}",
            "__streams.errors.message": error,
            "__streams.errors.stacktrace": "".join(traceback.format_exception(error))[-_LONGEST_TRACE:],
        }
        context |= {f"__streams.errors.{column}": str(row[column]) for column in ORIGIN if column in row}
        letter = dead_letter(shown(row.get("key")), shown(row.get("value")), context, row.get("headers") or ())
        time = record["timestamp"]
        time = (
            time.cast(pa.timestamp("ms", "UTC"), safe=False) if pa.types.is_timestamp(time.type) else timestamps(time)
        )
        if self._refusal is not None and self._refusal(topic, letter) is not None:
            letter = dead_letter(None, None, context)
        (batch,) = letter.append_column("timestamp", time).to_batches()
        self._output(topic, batch)


def check_handlers(topology: Topology) -> None:
    """Raise :class:`ConfigError` or :class:`Unsupported` for handlers that do not fit a topology."""
    letters = topology.handlers.errors_dead_letter_queue_topic_name
    if letters is not None and topology.source_of(letters) is not None:
        raise ConfigError(
            f"errors.dead.letter.queue.topic.name={letters} is a topic that the application reads. Nothing was"
            " read. Name another topic: a bad record would come again and again.",
            tag="TOPOLOGY",
        )
    for node in topology.nodes:
        operate = node.operate
        if topology.handlers.works_on and isinstance(operate, StreamJoin) and operate.joiner is not None:
            raise Unsupported(
                f"{node.name} has a function, and processing.exception.handler continues: not there yet. Nothing was"
                " read. Leave out the function, and put map_values after the join.",
                tag="NOT_YET",
            )


def _unfit(column: Any, serde: Serde) -> dict[int, Exception]:
    """Return the places of the values that do not fit a serialisation, and why."""
    try:
        to_python(decode(column, serde), serde)
    except UNFIT:
        pass
    else:
        return {}
    found: dict[int, Exception] = {}
    for at in range(len(column)):
        try:
            to_python(decode(column.slice(at, 1), serde), serde)
        except UNFIT as error:
            found[at] = error
    return found
