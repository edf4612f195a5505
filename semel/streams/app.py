"""An application: its topology, built in Kafka Streams' words, and its settings."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

from semel.errors import ConfigError
from semel.serdes.serde import Serde, check_serde
from semel.streams.dsl.global_table import GlobalTable, global_table
from semel.streams.dsl.stream import Stream
from semel.streams.dsl.table import Table
from semel.streams.handlers import handlers_of
from semel.streams.metrics import WorkerCounts
from semel.streams.settings import Settings, is_caching
from semel.streams.state.state_store import StoreSpec
from semel.streams.topology.node import EXTRACTORS, Extractor, Node, Source
from semel.streams.topology.topology import Topology, check_extractor, check_topic
from semel.streams.windows.duration import milliseconds

__all__ = ["App"]


class App:
    """An application: build its topology, then :meth:`run` it, in as many processes as you like.

    ``application_id`` names its group, its topics and its transactional ids. Properties are Kafka's and Kafka Streams'.
    Raises :class:`ConfigError` for wrong ones. Opens no connection.
    """

    def __init__(self, application_id: str, /, **properties: object) -> None:
        if not application_id or properties.get("application.id", application_id) != application_id:
            raise ConfigError(
                "an application needs one application.id. Nothing was read. Give it as the first argument.",
                tag="MISSING_OPTION",
            )
        self.application_id = application_id
        self.topology = Topology(application_id)
        self.properties = dict(properties)
        self.topology.caching = is_caching(properties)
        self.topology.handlers = handlers_of(properties)
        self.topology.extractor = check_extractor(properties.get("default.timestamp.extractor")) or EXTRACTORS[0]
        #: What its worker has done in this process.
        self.counts = WorkerCounts()
        self._stop = threading.Event()

    @property
    def dropped_records(self) -> dict[str, int]:
        """How many records each node has dropped in this process: without a key, late, or older than a retention."""
        return dict(self.topology.dropped.total)

    @property
    def settings(self) -> Settings:
        """Its properties, checked."""
        return Settings.parse(self.properties)

    def stream(
        self,
        topic: str | Sequence[str] | re.Pattern[str],
        *,
        key: Serde = "bytes",
        value: Serde = "bytes",
        timestamp_extractor: Extractor | None = None,
    ) -> Stream:
        """Return the stream of a topic's records, of several topics, or of all whose whole name fits a pattern
        (``re.compile("orders-.*")``). Two streams of one topic share their source.

        Topics that fit a pattern may come later: workers look for them each ``metadata.max.age.ms``. Kafka's internal
        topics and those of this application fit none. Raises :class:`ConfigError` for a topic that has two sources.

        ``timestamp_extractor`` is a class of Kafka Streams by its name, or a function of a record and the highest time
        of its partition so far, which returns milliseconds; a record with less than 0 is dropped.
        """
        name = self.topology.name("KSTREAM-SOURCE-")
        if not isinstance(topic, str | re.Pattern):
            return self._merged(name, topic, key, value, timestamp_extractor)
        if isinstance(topic, str):
            self.topology.check_overlap([topic])
        return Stream(self.topology, self._source(name, topic, key, value, timestamp_extractor), key, value)

    def _source(
        self, name: str, topic: str | re.Pattern[str], key: Serde, value: Serde, extractor: Extractor | None
    ) -> Node:
        read: dict[str, Any] = {"pattern": topic} if isinstance(topic, re.Pattern) else {"topic": topic}
        _check(topic.pattern if isinstance(topic, re.Pattern) else topic, key, value)
        extractor = check_extractor(extractor)
        node = self.topology.stream_source(topic, key, value, extractor)
        made: Node = node or self.topology.add(Source(name, **read, key=key, value=value, extractor=extractor))
        return made

    def _merged(
        self, name: str, topics: Sequence[str], key: Serde, value: Serde, extractor: Extractor | None
    ) -> Stream:
        """Return the stream of several topics: a source for each, which meet in the node of this name."""
        for topic in topics:
            check_topic(topic)
        sources = [self._source(f"{name}-{topic}", topic, key, value, extractor) for topic in dict.fromkeys(topics)]
        self.topology.check_overlap(topics)
        if not sources:
            raise ConfigError("the list of topics is empty. Nothing was read. Name at least one.", tag="TOPOLOGY")
        return Stream(self.topology, self.topology.add(Node(name, tuple(sources))), key, value)

    def table(
        self,
        topic: str,
        *,
        key: Serde = "bytes",
        value: Serde = "bytes",
        name: str | None = None,
        timestamp_extractor: Extractor | None = None,
        history_retention: str | int | None = None,
    ) -> Table:
        """Return a table with the newest record of each key of a topic. A record without a value deletes its key.

        With ``history_retention`` (milliseconds, or ``"1 h"``) the table has versions: it keeps what each key had, so
        long by the times of its records. A stream that is joined with it finds the version of its record's time.
        Records that come late are versions, too; those that are older than the history are dropped and counted.
        """
        _check(topic, key, value)
        store = name or self.topology.name(f"{topic}-STATE-STORE-")
        source, processor = self.topology.name("KSTREAM-SOURCE-"), self.topology.name("KTABLE-SOURCE-")
        extractor = check_extractor(timestamp_extractor)
        node = self.topology.add(Source(source, topic=topic, key=key, value=value, of_table=True, extractor=extractor))
        if history_retention is not None:
            history = milliseconds(history_retention, "history_retention")
            versions = StoreSpec(store, holds="versions by key", history_ms=history)
            return Table.of_versions(self.topology, processor, node, key, value, versions)
        spec = StoreSpec(store, holds="the newest value by key")  # as the topic has them, whatever reads them
        return Table.of_topic(self.topology, processor, node, key, value, spec)

    def global_table(
        self, topic: str, *, key: Serde = "bytes", value: Serde = "bytes", name: str | None = None
    ) -> GlobalTable:
        """Return a table of a topic that each worker has whole. Join streams with it by ``key_selector=``: neither
        their keys nor their partitions need to fit. ``name`` names the store.
        """
        return global_table(self.topology, topic, key, value, name)

    def describe(self) -> str:
        """Return the topology as text, in Kafka Streams' form."""
        return self.topology.describe()

    def run(self) -> None:
        """Work until :meth:`stop`, in this process. Start it in more processes to share the work.

        Raises :class:`~semel.errors.Fenced` if another worker has come with its instance id,
        :class:`~semel.errors.DataLoss` for lost rows or state, and :class:`ConfigError` for what brokers refuse and for
        records at which a function fails.
        """
        from semel.streams.worker.worker import Worker

        if (threads := self.settings.num_stream_threads) > 1:
            raise ConfigError(
                f"num.stream.threads={threads} is for the command `semel streams run`, which starts as many processes;"
                " App.run() is one worker. Nothing was read. Use the command, or set it to 1 and start this program"
                " several times.",
                tag="WRONG_VALUE",
            )
        try:
            Worker.run(self, self._stop)
        finally:
            self._stop.clear()  # and not at the beginning: a signal may have come while modules were imported

    def stop(self) -> None:
        """Commit what is done, and have :meth:`run` return, or the next one if it has not begun. From any thread, or a
        signal handler.
        """
        self._stop.set()


def _check(topic: Any, key: Serde, value: Serde) -> None:
    check_topic(topic)
    check_serde(key, topic)
    check_serde(value, topic)
