"""``Prepared``: a transaction whose rows are all acknowledged, and which only a decision ends.

It travels as JSON (``docs/formats.md``) and holds no secret. Every process that has the text can end the transaction:
by the stored producer id and epoch, never by InitProducerId, which would destroy it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from semel.errors import ConfigError
from semel.read.ranges import parse_id
from semel.strict_json import is_version, of_kind, read_object, write_object
from semel.transaction.transactional_id import IdKind
from semel.transaction.transactional_id import parse as parse_transactional_id
from semel.wire.api.transactions import Identity
from semel.wire.metadata import TopicPartition

__all__ = ["Prepared"]

VERSION = 1


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared transaction. Two are equal that name the same transaction of the same cluster.

    ``rows`` has the first offset and the number of rows of each partition, ``topics`` the id of each topic.
    ``prepared_ms`` is when, in milliseconds since the epoch. ``until_ms`` is when the brokers abort it unless it was
    ended before, or None in two-phase mode, where they never do.
    """

    cluster: str
    transactional_id: str
    producer_id: int
    epoch: int
    rows: Mapping[TopicPartition, tuple[int, int]] = field(compare=False)
    topics: Mapping[str, str] = field(compare=False)
    prepared_ms: int = field(compare=False)
    until_ms: int | None = field(default=None, compare=False)

    @property
    def identity(self) -> Identity:
        """The identity that ends it."""
        return Identity(self.transactional_id, self.producer_id, self.epoch)

    def __hash__(self) -> int:
        return hash((self.cluster, self.transactional_id, self.producer_id, self.epoch))

    def __str__(self) -> str:
        return write_object(self.as_dict()).decode()

    def as_dict(self) -> dict[str, Any]:
        """Return what the text says, as an object of JSON: it may be part of another one."""
        topics: dict[str, dict[str, object]] = {}
        for (topic, index), (first, count) in sorted(self.rows.items()):
            topic_fields = topics.setdefault(topic, {"id": self.topics[topic]})
            topic_fields[str(index)] = [first, count]
        return {
            "v": VERSION,
            "cluster": self.cluster,
            "id": self.transactional_id,
            "producer": [self.producer_id, self.epoch],
            "topics": topics,
            "prepared": self.prepared_ms,
            "until": self.until_ms,
        }

    def _check_possible(self) -> None:
        """Raise ``ValueError`` for numbers and names that no broker gives."""
        numbers = [self.producer_id, self.epoch, self.prepared_ms, 0 if self.until_ms is None else self.until_ms]
        numbers += [number for (_, index), (first, count) in self.rows.items() for number in (index, first, count - 1)]
        if not all(0 <= number < 1 << 63 for number in numbers) or self.epoch >= 1 << 15:
            raise ValueError("a number that is too small or too large")
        if parse_transactional_id(self.transactional_id).kind is IdKind.OWNER:
            raise ValueError("the id of an owner")
        for topic_id in self.topics.values():
            parse_id(topic_id)
            if len(topic_id) != 22:
                raise ValueError("a topic id that is none")

    @classmethod
    def parse(cls, text: str | bytes) -> Prepared:
        """Read the text of one. Raises :class:`ConfigError` for any other text, and for one of a newer semel.

        What is read is written again to the same values: a key or a number that could not have come from ``str`` is
        refused.
        """
        try:
            value = read_object(text if isinstance(text, bytes) else text.encode())
            prepared = cls._read(value) if is_version(value["v"], VERSION) else None
        except (ConfigError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise ConfigError(
                f"{text!r:.200} is no prepared transaction ({type(error).__name__}). Nothing was changed. Give the text"
                " that str(prepared) returned, whole.",
                tag="NO_PREPARED",
            ) from None
        if prepared is None:
            raise ConfigError(
                f"the prepared transaction has version {value['v']!r:.50}, and this semel reads {VERSION}. Nothing"
                " was changed. Use the semel that wrote it, or a newer one.",
                tag="NO_PREPARED",
            )
        return prepared

    @classmethod
    def _read(cls, value: dict[str, Any]) -> Prepared:
        topics = of_kind(dict, value["topics"])
        producer_id, epoch = (of_kind(int, number) for number in value["producer"])
        until = value["until"]
        prepared = cls(
            of_kind(str, value["cluster"]),
            of_kind(str, value["id"]),
            producer_id,
            epoch,
            {
                (topic, int(index)): (of_kind(int, row[0]), of_kind(int, row[1]))
                for topic, rows in topics.items()
                for index, row in rows.items()
                if index != "id"
            },
            {topic: of_kind(str, rows["id"]) for topic, rows in topics.items()},
            of_kind(int, value["prepared"]),
            None if until is None else of_kind(int, until),
        )
        prepared._check_possible()
        if str(prepared).encode() != write_object(value):
            raise ValueError("other keys than those of a prepared transaction")
        return prepared
