"""An application: its topology and its settings, by Kafka Streams' property names."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from semel.config import ClientConfig
from semel.errors import ConfigError, Unsupported
from semel.streams.nodes.stateful import TableSource, value_reader
from semel.streams.serdes import Serde, check_serde
from semel.streams.state.store import StoreSpec
from semel.streams.stream import Stream, Table
from semel.streams.topology import Node, Source, Topology, check_topic

__all__ = ["App", "Settings"]

_TRANSACTION_MS = 10_000
_NUMBERS = {
    "commit.interval.ms": 100,
    "max.poll.interval.ms": 300_000,
    "replication.factor": -1,
    "session.timeout.ms": 45_000,
}
#: Properties of Kafka Streams whose values here are these and no others.
_FIXED = {"num.standby.replicas": "0", "num.stream.threads": "1", "processing.guarantee": "exactly_once_v2"}
_OTHERS = {"application.id", "auto.offset.reset", "group.instance.id", "max.poll.records", "state.dir"}
_OWN = {*_NUMBERS, *_FIXED, *_OTHERS}


@dataclass(frozen=True)
class Settings:
    """The settings of an application, checked. ``client`` has those of every Kafka client."""

    client: ClientConfig
    commit_interval_ms: int
    max_poll_interval_ms: int
    #: None: as many as suit the work.
    max_poll_records: int | None
    replication_factor: int
    session_timeout_ms: int
    auto_offset_reset: str
    group_instance_id: str | None
    state_dir: Path

    @classmethod
    def parse(cls, properties: Mapping[str, object]) -> Settings:
        """Raise :class:`ConfigError` for what cannot be, :class:`Unsupported` for what is not there yet."""
        given = {name: value for name, value in properties.items() if name in _OWN}
        for name, only in _FIXED.items():
            if str(given.get(name, only)) != only:
                raise Unsupported(
                    f"{name}={given[name]} is not there yet. Nothing was read. Leave it out, or set it to {only}.",
                    tag="NOT_YET",
                )
        if str(properties.get("isolation.level", "read_committed")) != "read_committed":
            raise ConfigError(
                "isolation.level=read_uncommitted would count rows of transactions that are aborted, and again when"
                " they come for good. Nothing was read. Leave it out."
            )
        reset = str(given.get("auto.offset.reset", "earliest"))
        if reset not in ("earliest", "latest"):
            raise ConfigError(f"auto.offset.reset={reset} is neither earliest nor latest. Nothing was read. Set one.")
        client = ClientConfig.parse({name: value for name, value in properties.items() if name not in _OWN})
        numbers = {name.replace(".", "_"): _number(name, given.get(name, usual)) for name, usual in _NUMBERS.items()}
        timeout = client.transaction_timeout_ms or _TRANSACTION_MS
        if numbers["commit_interval_ms"] > timeout:
            raise ConfigError(
                f"commit.interval.ms={numbers['commit_interval_ms']} is longer than transaction.timeout.ms={timeout}:"
                " each transaction would be aborted. Nothing was read. Lower commit.interval.ms, or raise"
                " transaction.timeout.ms.",
                tag="COMMIT_INTERVAL",
            )
        most = given.get("max.poll.records")
        instance = given.get("group.instance.id")
        folder = given.get("state.dir")
        return cls(
            client,
            auto_offset_reset=reset,
            group_instance_id=None if instance is None else str(instance),
            state_dir=Path(str(folder)) if folder else Path(tempfile.gettempdir()) / "semel-streams",
            max_poll_records=None if most is None else _number("max.poll.records", most),
            **numbers,
        )


def _number(name: str, given: Any) -> int:
    try:
        found = int(given)
    except (TypeError, ValueError):
        found = 0
    if found < 1 and not (name == "replication.factor" and found == -1):
        raise ConfigError(f"{name}={given!r} is no number above 0. Nothing was read. Correct it.")
    return found


class App:
    """An application: build its topology, then :meth:`run` it, in as many processes as you like.

    ``application_id`` names its group, its topics and its transactional ids. Properties are Kafka's and Kafka Streams'.
    Raises :class:`ConfigError` for wrong ones. Opens no connection.
    """

    def __init__(self, application_id: str, /, **properties: object) -> None:
        if not application_id or properties.get("application.id", application_id) != application_id:
            raise ConfigError(
                "an application needs one application.id. Nothing was read. Give it as the first argument.",
                tag="APPLICATION_ID",
            )
        self.application_id = application_id
        self.topology = Topology(application_id)
        self.properties = dict(properties)
        self._stop = threading.Event()

    @property
    def dropped_records(self) -> dict[str, int]:
        """How many records each node has dropped in this process: without a key, late, or older than a retention."""
        return dict(self.topology.dropped.total)

    @property
    def settings(self) -> Settings:
        """Its properties, checked."""
        return Settings.parse(self.properties)

    def stream(self, topic: str, *, key: Serde = "bytes", value: Serde = "bytes") -> Stream:
        """Return the stream of a topic's records. Two streams of one topic share their source."""
        _check(topic, key, value)
        name = self.topology.name("KSTREAM-SOURCE-")
        node = self.topology.stream_source(topic, key, value)
        node = node or self.topology.add(Source(name, topic=topic, key=key, value=value))
        return Stream(self.topology, node, key, value)

    def table(self, topic: str, *, key: Serde = "bytes", value: Serde = "bytes", name: str | None = None) -> Table:
        """Return a table with the newest record of each key of a topic. A record without a value deletes its key."""
        _check(topic, key, value)
        store = name or self.topology.name(f"{topic}-STATE-STORE-")
        source, processor = self.topology.name("KSTREAM-SOURCE-"), self.topology.name("KTABLE-SOURCE-")
        node = self.topology.add(Source(source, topic=topic, key=key, value=value, of_table=True))
        spec = StoreSpec(store, holds="the newest value by key")  # as the topic has them, whatever reads them
        operate = TableSource(processor, spec, key, value, self.topology.dropped)
        kept = self.topology.add(Node(processor, (node,), operate, (spec,)))
        return Table(self.topology, kept, key, value, spec, value_reader(value))

    def global_table(self, *_: object, **__: object) -> NoReturn:
        """Not there yet: raises :class:`Unsupported`."""
        raise Unsupported(
            "global tables are not there yet. Nothing was read. Use table, with as many partitions as the stream.",
            tag="NOT_YET",
        )

    def describe(self) -> str:
        """Return the topology as text, in Kafka Streams' form."""
        return self.topology.describe()

    def run(self) -> None:
        """Work until :meth:`stop`, in this process. Start it in more processes to share the work.

        Raises :class:`~semel.errors.Fenced` if another worker has come with its instance id,
        :class:`~semel.errors.DataLoss` for lost rows or state, and :class:`ConfigError` for what brokers refuse and for
        records at which a function fails.
        """
        from semel.streams.worker import Worker

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
