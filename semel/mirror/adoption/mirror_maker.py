"""MirrorMaker 2's positions, in the offsets topic of its Connect cluster on the target.

A position there is the offset of the last record that was copied. In exactly-once mode it was committed with that
record. Else it trails the records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from semel.errors import ConfigError, Retriable
from semel.mirror.adoption.origins import Origin, Standing, Trust, check_no_members
from semel.mirror.config.flow_config import FlowConfig
from semel.read.ranges import Range, id_text
from semel.read.reader import Reader
from semel.serdes.connect_offsets import parse_key, parse_value
from semel.strict_json import of_kind
from semel.transaction.connect_tasks import task_id, task_numbers
from semel.wire.api.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.api.transactions import fence
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition, named

__all__ = ["CONNECTOR", "MirrorMakerOrigin", "wait_until_stable"]

#: The name of the connector in the dedicated mode.
CONNECTOR = "MirrorSourceConnector"


@dataclass(frozen=True, slots=True)
class MirrorMakerOrigin(Origin):
    """The offsets of a connector of MirrorMaker 2, in ``topic``. ``group`` is the id of its Connect cluster."""

    topic: str
    group: str
    connector: str
    lists_all: ClassVar[bool] = True

    @classmethod
    def dedicated(cls, config: FlowConfig) -> MirrorMakerOrigin:
        """Return the origin of the dedicated mode, by the names that MirrorMaker 2 has there."""
        source = config.policy.source
        return cls(f"mm2-offsets.{source}.internal", f"{source}-mm2", CONNECTOR)

    @property
    def title(self) -> str:
        """The topic of its offsets."""
        return self.topic

    def check_at_rest(self, source: Client, target: Client) -> None:
        """Raise :class:`ConfigError` if a worker of it is a live member of its group."""
        check_no_members(target, self.group, "Stop MirrorMaker 2.")

    def fence(self, target: Client) -> None:
        """Fence the tasks that write in transactions, and abort what they have left open."""
        for number in task_numbers(target, self.group, self.connector):
            fence(target, task_id(self.group, self.connector, number))
        wait_until_stable(target, _partitions(target, self.topic))

    def positions(
        self, source: Client, target: Client, config: FlowConfig, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Standing]:
        """Return the offset after the last copied one of each partition. Raise :class:`ConfigError` if there is
        none of this source.
        """
        newest = dict(self._offsets(target, config.policy.source))
        positions = {
            partition: Standing(offset + 1, self.title, Trust.TRAILING, in_transaction=True)
            for partition, offset in newest.items()
            if offset is not None
        }
        if not positions.keys() & set(partitions):
            raise ConfigError(
                f"{self.topic} of {config.policy.target} has no offset of {self.connector} for cluster"
                f" {config.policy.source}. Nothing was changed. Give the names that MirrorMaker 2 has:"
                " --offsets-topic, --connect-group, --connector.",
                tag="NO_OFFSETS",
            )
        return positions

    def _offsets(self, target: Client, alias: str) -> Iterator[tuple[TopicPartition, int | None]]:
        """Yield the offsets in their order. None removes one."""
        for key, value in _records(target, self.topic):
            name = parse_key(key)
            if name is None or name[0] != self.connector or name[1].get("cluster") != alias:
                continue
            try:
                row = parse_value(value)
                partition = of_kind(str, name[1]["topic"]), of_kind(int, name[1]["partition"])
                yield partition, None if row is None else of_kind(int, row["offset"])
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigError(
                    f"{self.topic} has an offset of {self.connector} that cannot be read ({error!r:.200}). Nothing was"
                    " changed. Give the offsets in a file: --from file:PATH",
                    tag="OFFSET_DAMAGED",
                ) from None


def _records(client: Client, topic: str) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield the committed records of a topic, those of each key in their order."""
    partitions = _partitions(client, topic)
    first, last = (
        list_offsets(client, dict.fromkeys(partitions, at), read_committed=True) for at in (EARLIEST, LATEST)
    )
    ranges = [Range(topic, id, p[1], first[p].offset, last[p].offset) for p, id in partitions.items()]
    with Reader(client, ranges) as reader:
        for rows in reader:
            columns: list[list[Any]] = [rows.column(name).to_pylist() for name in ("key", "value")]
            yield from zip(*columns, strict=True)


def _partitions(client: Client, topic: str) -> dict[TopicPartition, str]:
    """Return the partitions of a topic, each with the topic's id."""
    metadata = client.topics({topic})[topic]
    return {(topic, index): id_text(metadata.id) for index in metadata.partitions}


def wait_until_stable(client: Client, partitions: Collection[TopicPartition]) -> None:
    """Return once no transaction is open on these partitions. Raise :class:`Retriable` if one stays open."""
    deadline = client.deadline()
    wanted = dict.fromkeys(partitions, LATEST)
    while wanted:
        ends = list_offsets(client, wanted, read_committed=False)
        stable = list_offsets(client, wanted, read_committed=True)
        held = {p for p in partitions if stable[p].offset < ends[p].offset}
        if not held:
            return
        if deadline.passed:
            raise Retriable(
                f"a transaction stays open on {named(held)}. Nothing was changed. `semel txn list` shows which one it"
                " is. End it, then adopt again.",
                tag="OPEN_TRANSACTION",
            )
        deadline.pause()
