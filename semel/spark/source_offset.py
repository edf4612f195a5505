"""The JSON that our source leaves in Spark's offset log, one text a source and batch (PROTOCOL 6).

    {"v":2,"cluster":"<cluster id>","topics":{"in":{"id":"<topic id>","began":{"0":5},"end":{"0":42},"epochs":{"0":3}}}}

``began`` is the offset at which this source first started a partition, unchanged in every later offset; a partition
that is found later begins at its earliest. ``epochs`` names the leader epoch in which the log was seen to reach
``end``: only that shows a log that was truncated below it and written again. It changes with ``end`` only. A missing
one is added when another ``end`` changes. Version 1 has none. ``"initial":true`` stands in the answer
of ``initialOffset`` only, where ``began`` equals ``end``: Spark asks for that answer several times and logs none of
them, so a reader that is given such a start reads from the end's ``began`` instead.

The form is canonical, always the same keys in the same order: Spark compares offsets as text, and a key that comes or
goes makes an extra, empty batch. Python sources hand dictionaries to Spark, which prints them with its own spaces:
:func:`as_dict` gives the canonical one, and :func:`parse` takes any spacing. Not promised: that a later version of
semel writes version 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from semel.errors import ConfigError, DataLoss, SemelError, Unsupported
from semel.strict_json import is_version, of_kind, read_object, write_object

__all__ = ["SourceOffset", "TopicOffset", "as_dict", "dump", "initial", "parse"]

VERSION = 2


@dataclass(frozen=True, slots=True)
class TopicOffset:
    """One topic: its id, where each partition began, and the next offset to read of each. ``epochs`` has the leader
    epochs that are known.
    """

    id: str
    began: Mapping[int, int]
    end: Mapping[int, int]
    epochs: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The end of what one source of ours has planned, and its beginning.

    ``initial`` marks the answer of ``initialOffset``: no position to believe.
    """

    cluster: str
    topics: Mapping[str, TopicOffset]
    initial: bool = False


def initial(cluster: str, topics: Mapping[str, tuple[str, Mapping[int, int]]]) -> SourceOffset:
    """Return the answer of ``initialOffset``: for each topic its id and where its partitions begin."""
    return SourceOffset(
        cluster, {name: TopicOffset(id, dict(began), dict(began)) for name, (id, began) in topics.items()}, initial=True
    )


def as_dict(offset: SourceOffset) -> dict[str, Any]:
    """Return the canonical dictionary that a Python data source gives to Spark."""
    topics = {name: _topic_dict(offset.topics[name]) for name in sorted(offset.topics)}
    mark = {"initial": True} if offset.initial else {}
    return {"cluster": offset.cluster, **mark, "topics": topics, "v": VERSION}


def dump(offset: SourceOffset) -> str:
    """Return the canonical text: sorted keys, no spaces."""
    return write_object(as_dict(offset)).decode()


def parse(text: str, where: str = "Spark's offset log") -> SourceOffset:
    """Read an offset; ``where`` is for messages.

    Raises :class:`Unsupported` for what another version wrote, :class:`ConfigError` for what Spark's own Kafka source
    wrote, :class:`DataLoss` for what is no offset of ours.
    """
    try:
        value = read_object(text)
        _check_not_kafka(value, where)
        _check_version(value, where)
        return _checked(_source(value), where)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(where, f"{error!r:.200}") from None


def _topic_dict(topic: TopicOffset) -> dict[str, Any]:
    epochs = {"epochs": _partitions_dict(topic.epochs)} if topic.epochs else {}
    return {
        "began": _partitions_dict(topic.began),
        "end": _partitions_dict(topic.end),
        **epochs,
        "id": topic.id,
    }


def _partitions_dict(offsets: Mapping[int, int]) -> dict[str, int]:
    return {key: offsets[int(key)] for key in sorted(str(partition) for partition in offsets)}


def _check_not_kafka(value: Mapping[str, Any], where: str) -> None:
    """Spark's own source writes topics, partitions and next offsets, and nothing else."""
    if value and all(
        isinstance(row, dict) and row and all(key.isdecimal() and type(row[key]) is int for key in row)
        for row in value.values()
    ):
        raise ConfigError(
            f"{where} holds an offset of Spark's own Kafka source: a query that moves to semel needs a new"
            " checkpoint. Nothing was read or written. Carry over where the old one stands: semel progress import"
            " PREFIX --checkpoint OLD, then start with a new checkpoint, startingOffsets=committed and"
            " transactionalIdPrefix=PREFIX at the source.",
            tag="KAFKA_CHECKPOINT",
        )


def _check_version(value: Mapping[str, Any], where: str) -> None:
    unknown = sorted(value.keys() - {"v", "cluster", "topics", "initial"})
    known = any(is_version(value["v"], version) for version in range(1, VERSION + 1))
    if known and not unknown:
        return
    found = (
        f"version {value['v']!r:.100}"
        if not known
        else f"keys that version {value['v']} does not have ({', '.join(unknown)})"
    )
    raise Unsupported(
        f"the source offset in {where} has {found}, and this semel knows versions up to {VERSION}: another version of"
        " semel wrote it. Nothing was read or written. Run this query with that version or a newer one.",
        tag="OFFSET_VERSION",
    )


def _source(value: Mapping[str, Any]) -> SourceOffset:
    topics = {name: _topic(name, row) for name, row in value["topics"].items()}
    return SourceOffset(of_kind(str, value["cluster"]), topics, of_kind(bool, value.get("initial", False)))


def _topic(name: str, row: Mapping[str, Any]) -> TopicOffset:
    if row.keys() - {"epochs"} != {"id", "began", "end"} or not isinstance(row["id"], str):
        raise ValueError(f"topic {name!r} is {row!r}")
    return TopicOffset(
        row["id"], _partitions(row["began"]), _partitions(row["end"]), _partitions(row.get("epochs", {}))
    )


def _partitions(row: Mapping[str, Any]) -> dict[int, int]:
    return {int(partition): of_kind(int, offset) for partition, offset in row.items()}


def _checked(offset: SourceOffset, where: str) -> SourceOffset:
    for name, topic in offset.topics.items():
        if topic.began.keys() != topic.end.keys():
            raise _damaged(where, f"topic {name!r} has other partitions in began than in end")
        wrong = [p for p, began in topic.began.items() if p < 0 or not 0 <= began <= topic.end[p]]
        if wrong:
            raise _damaged(
                where, f"{name}-{wrong[0]} ends at {topic.end[wrong[0]]} and began at {topic.began[wrong[0]]}"
            )
        if not topic.epochs.keys() <= topic.end.keys() or any(epoch < 0 for epoch in topic.epochs.values()):
            raise _damaged(where, f"topic {name!r} has epochs that are none, or of partitions that end does not have")
        if offset.initial and topic.began != topic.end:
            raise _damaged(where, f"it is marked as initial, and topic {name!r} does not end where it began")
    return offset


def _damaged(where: str, what: str) -> SemelError:
    return DataLoss(
        f"the source offset in {where} is not one that semel writes: {what}. Nothing was read or written: it is"
        " not known which rows were read. Restore the checkpoint from a backup, or start with a new one"
        " and startingOffsets=committed.",
        tag="OFFSETS_DAMAGED",
    )
