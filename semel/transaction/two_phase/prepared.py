"""``Prepared``: a transaction whose rows are all acknowledged, and which only a decision ends.

It travels as JSON (``docs/formats.md``) and holds no secret. Whoever has the text can end the transaction, from any
process: by the stored producer id and epoch, never by InitProducerId, which would destroy it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from semel.errors import ConfigError
from semel.strict_json import is_version, of_kind, read_object, write_object
from semel.wire.api.transactions import Identity
from semel.wire.metadata import TopicPartition

__all__ = ["Prepared"]

VERSION = 1


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared transaction. Two are equal that name the same transaction of the same cluster.

    ``rows`` has the first offset and the number of rows of each partition, ``topics`` the id of each topic.
    ``prepared_ms`` is when, in milliseconds since the epoch. ``until_ms`` is when the brokers abort it if nobody has
    ended it before, or None in two-phase mode, where they never do.
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
        """What ends it."""
        return Identity(self.transactional_id, self.producer_id, self.epoch)

    def __hash__(self) -> int:
        return hash((self.cluster, self.transactional_id, self.producer_id, self.epoch))

    def __str__(self) -> str:
        topics: dict[str, dict[str, object]] = {}
        for (topic, index), (first, count) in sorted(self.rows.items()):
            known = topics.setdefault(topic, {"id": self.topics[topic]})
            known[str(index)] = [first, count]
        value = {
            "v": VERSION,
            "cluster": self.cluster,
            "id": self.transactional_id,
            "producer": [self.producer_id, self.epoch],
            "topics": topics,
            "prepared": self.prepared_ms,
            "until": self.until_ms,
        }
        return write_object(value).decode()

    @classmethod
    def parse(cls, text: str | bytes) -> Prepared:
        """Read the text of one. Raises :class:`ConfigError` for any other text, and for one of a newer semel."""
        try:
            value = read_object(text if isinstance(text, bytes) else text.encode())
            if not is_version(value["v"], VERSION):
                raise ConfigError(
                    f"the prepared transaction has version {value['v']!r:.50}, and this semel reads {VERSION}. Nothing"
                    " was changed. Use the semel that wrote it, or a newer one.",
                    tag="NO_PREPARED",
                )
            topics = of_kind(dict, value["topics"])
            producer_id, epoch = (of_kind(int, number) for number in value["producer"])
            until = value["until"]
            return cls(
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
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise ConfigError(
                f"{text!r:.200} is no prepared transaction ({type(error).__name__}). Nothing was changed. Give the text"
                " that str(prepared) returned, whole.",
                tag="NO_PREPARED",
            ) from None
