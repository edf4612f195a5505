"""Records that a sink leaves out: as they were read, in the dead-letter topic, with headers that say why.

A letter is acknowledged before the offset of its record is committed. After a crash it may come twice.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from semel.config import ClientConfig
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.sink_api import SinkRecord
from semel.connect.sinks.batches import BadRecord
from semel.errors import SemelError
from semel.records.dead_letters import dead_letter, shown
from semel.records.record_headers import headers_column
from semel.transaction.local_writer import LocalWriter
from semel.transaction.output_topics import OutputTopics
from semel.transaction.ticket import NO_TRANSACTION, Tickets
from semel.wire.api import topics
from semel.wire.client import Client

__all__ = ["DeadLetters"]

log = logging.getLogger("semel.connect")

_LOGGED = 10
_LONGEST_TRACE = 20_000


class DeadLetters:
    """The records that one task leaves out. ``flush`` writes them."""

    def __init__(self, config: ConnectorConfig, task: int) -> None:
        self._config, self._task = config, task
        self._due: list[BadRecord] = []
        self._client: Client | None = None
        self._sent = 0
        #: How many were left out.
        self.count = 0

    def take(self, bad: BadRecord) -> None:
        """Leave a record out."""
        self._due.append(bad)
        self.count += 1

    def report(self, rows: Any, record: SinkRecord, error: BaseException) -> None:
        """Leave out a record that the task cannot write. ``rows`` are those of its batch, as they were read."""
        found = rows.filter(pa.compute.equal(rows["offset"], record.offset)) if rows is not None else None
        if found is None or not found.num_rows:
            found = pa.table(
                {
                    "topic": [record.topic],
                    "partition": [record.partition],
                    "offset": [record.offset],
                    "timestamp": pa.array([record.timestamp], pa.timestamp("ms", "UTC")),
                    "key": [shown(record.key)],
                    "value": [shown(record.value)],
                    "headers": headers_column([record.headers]),
                }
            )
        self.take(BadRecord(found, "TASK_PUT", type(self._config.connector).__qualname__, error))

    def flush(self) -> None:
        """Write what is due, and wait until it is acknowledged."""
        due, self._due = self._due, []
        if not due:
            return
        if self._config.log_errors:
            self._log(due)
        if self._config.dead_letters:
            self._write(due)

    def close(self) -> None:
        """Close its connections."""
        if self._client is not None:
            self._client.close()

    def _log(self, due: Sequence[BadRecord]) -> None:
        for bad in due[:_LOGGED]:
            place = f" of {_cell(bad, 'topic')}-{_cell(bad, 'partition')}, offset {_cell(bad, 'offset')}"
            where = place if self._config.log_messages else ""
            log.error("task %s-%s left out a record%s: %s", self._config.name, self._task, where, bad.error)

    def _write(self, due: Sequence[BadRecord]) -> None:
        topic, config = self._config.dead_letters, self._config
        if self._client is None:
            client_id = f"connector-dlq-producer-{config.name}-{self._task}"
            self._client = Client(ClientConfig.parse({"client.id": client_id, **config.clients.producer}))
            self._topics = OutputTopics(self._client)
        facts = self._topics.describe({topic}, self._client.deadline(), create=lambda _: self._create(topic))
        self._sent += 1
        writer = LocalWriter(
            self._client, Tickets(), identity=lambda: NO_TRANSACTION, add=lambda _: None, first=self._sent
        )
        writer.send({topic: pa.concat_tables(map(self._letter, due))}, facts)

    def _create(self, topic: str) -> None:
        """Make the topic if it is missing, with one partition, as Kafka Connect does."""
        sink = self._config.sink
        assert sink is not None
        with Client(ClientConfig.parse(self._config.clients.admin)) as admin:
            if topic not in admin.existing({topic}):
                topics.create(admin, topic, partitions=1, replication=sink.dead_letters_replication, config={})

    def _letter(self, bad: BadRecord) -> pa.Table:
        headers = _cell(bad, "headers") or ()
        context = self._context(bad) if self._config.dead_letter_headers else {}
        letter = dead_letter(_cell(bad, "key"), _cell(bad, "value"), context, headers)
        time = bad.row["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False)
        return letter.append_column("timestamp", time)

    def _context(self, bad: BadRecord) -> dict[str, Any]:
        error = bad.error
        name = f"{type(error).__module__}.{type(error).__qualname__}"
        said = error.message if isinstance(error, SemelError) else str(error)
        return {
            "__connect.errors.topic": _cell(bad, "topic"),
            "__connect.errors.partition": str(_cell(bad, "partition")),
            "__connect.errors.offset": str(_cell(bad, "offset")),
            "__connect.errors.connector.name": self._config.name,
            "__connect.errors.task.id": str(self._task),
            "__connect.errors.stage": bad.stage,
            "__connect.errors.class.name": bad.class_name,
            "__connect.errors.exception.class.name": name,
            "__connect.errors.exception.message": said,
            "__connect.errors.exception.stacktrace": "".join(traceback.format_exception(error))[-_LONGEST_TRACE:],
        }


def _cell(bad: BadRecord, name: str) -> Any:
    return bad.row[name][0].as_py()
