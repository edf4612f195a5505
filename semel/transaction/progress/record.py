"""The progress record: what a transaction has done. It is its last record, and the next owner reads it (PROTOCOL 1 and
2).

It lives in a compacted topic, in the transaction that it speaks of: if a reader sees it committed, all of that
transaction is committed, and if not, none. This module knows its form,
:mod:`semel.transaction.progress.log` how it is settled, :mod:`semel.transaction.progress.topic` where it is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from semel.errors import ConfigError, DataLoss, Unsupported
from semel.strict_json import is_version, of_kind, read_object, write_object
from semel.transaction.two_phase.prepared import Prepared

__all__ = [
    "LOOK",
    "KafkaSource",
    "OpaqueSource",
    "Progress",
    "RecordedOutcome",
    "Source",
    "TopicEnd",
    "claim_key",
    "claim_value",
    "claimed_from",
    "decided_key",
    "ended_by",
    "ended_key",
    "ended_value",
    "is_progress_key",
    "key_head",
    "look_key",
    "progress_key",
]

VERSION = 1
#: Of a record that enlists: a semel that does not know what that means must refuse it.
ENLISTING_VERSION = 2
CLAIM_VERSION = 2
_SIMPLE: dict[str, type] = {"query": str, "run": str, "batch": int, "moved": str}


@dataclass(frozen=True, slots=True)
class TopicEnd:
    """The position in one topic: the topic's id, and for each partition the next offset to read.

    ``began`` is where the query first started each partition. It says nothing of how far it was read, and is not
    compared; None if it is unknown.
    """

    id: str
    end: Mapping[int, int]
    began: Mapping[int, int] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """The position of one of semel's own sources; ``name`` where the query names its sources."""

    cluster: str
    topics: Mapping[str, TopicEnd]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class OpaqueSource:
    """The position of any other source, as its text: it can be equal to another or not, and nothing else is known of
    it.
    """

    text: str
    name: str | None = None


Source = KafkaSource | OpaqueSource


@dataclass(frozen=True, slots=True)
class Progress:
    """The work of one transaction: which batch of which query, the position of its sources, and where its rows lie.

    ``wrote`` holds first and last offset by topic and partition, ``groups`` the partitions of each group whose offsets
    it commits. ``outputs`` are the ids of the topics that the batch was to be written to, also of those that got no
    row. ``enlisted`` are the prepared transactions for which this one decides: they are committed because it is.
    ``moved`` names the prefix that has taken over this one. ``extra`` are keys that this version does not know:
    they are kept. With ``forgotten`` it is none at all: what was there before no longer counts. Such a record has
    no value (a tombstone, which compaction removes in time, with all that it made obsolete).
    """

    query: str | None = None
    run: str | None = None
    batch: int | None = None
    sources: tuple[Source, ...] = ()
    wrote: Mapping[str, Mapping[int, tuple[int, int]]] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    enlisted: tuple[Prepared, ...] = ()
    moved: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    forgotten: bool = False

    def positions(self, cluster: str | None = None, ids: Mapping[str, str] | None = None) -> dict[tuple[str, int], int]:
        """Return the next offset to read of each topic and partition of semel's own sources. If several sources read
        one partition, the lowest counts.

        With ``cluster``, of sources that read that one; with ``ids``, of topics that still have this id: offsets of one
        that was created again mean nothing.
        """
        positions: dict[tuple[str, int], int] = {}
        for source in self.sources:
            if not isinstance(source, KafkaSource) or cluster not in (None, source.cluster):
                continue
            for name, topic in source.topics.items():
                if ids is None or ids.get(name) == topic.id:
                    for index, offset in topic.end.items():
                        positions[name, index] = min(offset, positions.get((name, index), offset))
        return positions

    def encode(self) -> bytes:
        """Encode as JSON with sorted keys."""
        value: dict[str, Any] = {**self.extra, "v": ENLISTING_VERSION if self.enlisted else VERSION}
        for name in _SIMPLE:
            if getattr(self, name) is not None:
                value[name] = getattr(self, name)
        value["sources"] = [_source_value(source) for source in self.sources]
        value["wrote"] = {t: {str(p): list(ends) for p, ends in parts.items()} for t, parts in self.wrote.items()}
        if self.groups:
            value["groups"] = {
                group: {t: list(indexes) for t, indexes in parts.items()} for group, parts in self.groups.items()
            }
        if self.outputs:
            value["outputs"] = dict(self.outputs)
        if self.enlisted:
            value["enlisted"] = [prepared.as_dict() for prepared in self.enlisted]
        return write_object(value)

    @classmethod
    def decode(cls, text: bytes, where: str) -> Progress:
        """From JSON.

        Raises :class:`Unsupported` for a version that is not known, :class:`DataLoss` for what is no progress record at
        all.
        """
        try:
            value = read_object(text)
            version = value.pop("v")
            enlists = is_version(version, ENLISTING_VERSION)
            if not enlists:
                _check_version(version, where)
            enlisted = tuple(Prepared.parse(write_object(row)) for row in value.pop("enlisted", ()))
            if bool(enlisted) != enlists:
                raise ValueError("a version that does not fit what is enlisted")
            sources = tuple(_source(row) for row in value.pop("sources", ()))
            wrote = {
                t: {int(p): _ends(ends) for p, ends in parts.items()} for t, parts in value.pop("wrote", {}).items()
            }
            groups = {
                group: {t: _indexes(row) for t, row in parts.items()}
                for group, parts in value.pop("groups", {}).items()
            }
            outputs = {topic: of_kind(str, id) for topic, id in value.pop("outputs", {}).items()}
            simple_fields = {name: _maybe(kind, value.pop(name, None)) for name, kind in _SIMPLE.items()}
        except (ConfigError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise _damaged(where, error) from None
        return cls(
            **simple_fields,
            sources=sources,
            wrote=wrote,
            groups=groups,
            outputs=outputs,
            enlisted=enlisted,
            extra=value,
        )


@dataclass(frozen=True, slots=True)
class RecordedOutcome:
    """The outcome of a transaction that lost a marker, recorded by its owner or an operator (PROTOCOL 5.3).

    It is a plain record, so it counts whatever happens to its writer. Any owner that finds open rows of this pair ends
    them so. Of several records, the first one counts.
    """

    producer_id: int
    epoch: int
    committed: bool

    def encode(self) -> bytes:
        """Encode as JSON with sorted keys."""
        value = {"v": VERSION, "producer": self.producer_id, "epoch": self.epoch, "committed": self.committed}
        return write_object(value)

    @classmethod
    def decode(cls, text: bytes, where: str) -> RecordedOutcome:
        """From JSON. Raises as :meth:`Progress.decode` does."""
        try:
            value = read_object(text)
            _check_version(value["v"], where)
            return cls(of_kind(int, value["producer"]), of_kind(int, value["epoch"]), of_kind(bool, value["committed"]))
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(where, error) from None


def _check_version(version: object, where: str, newest: int = VERSION) -> None:
    if not is_version(version, newest):
        raise Unsupported(
            f"the record of progress at {where} has version {version!r:.100}, and this semel knows {newest}: a newer"
            " semel wrote it. Nothing was written. Run this query with that version or a newer one."
        )


def _damaged(where: str, error: Exception) -> DataLoss:
    return DataLoss(
        f"the record at {where} should be progress of semel and is not ({error!r:.200}). Nothing was written. Another"
        " program writes into this topic: give semel a topic of its own (progressTopic).",
        tag="PROGRESS_DAMAGED",
    )


def _source_value(source: Source) -> dict[str, Any]:
    named = {"name": source.name} if source.name is not None else {}
    if isinstance(source, OpaqueSource):
        return {"text": source.text, **named}
    return {
        "cluster": source.cluster,
        "topics": {name: _topic_value(topic) for name, topic in source.topics.items()},
        **named,
    }


def _topic_value(topic: TopicEnd) -> dict[str, Any]:
    began = {"began": _by_text(topic.began)} if topic.began is not None else {}
    return {"id": topic.id, "end": _by_text(topic.end), **began}


def _by_text(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in offsets.items()}


def _maybe(kind: type, value: Any) -> Any:
    return None if value is None else of_kind(kind, value)


def _ends(row: Any) -> tuple[int, int]:
    first, last = of_kind(list, row)
    return of_kind(int, first), of_kind(int, last)


def _indexes(row: Any) -> tuple[int, ...]:
    return tuple(of_kind(int, index) for index in of_kind(list, row))


def _source(row: dict[str, Any]) -> Source:
    if "text" in row:
        return OpaqueSource(of_kind(str, row["text"]), _maybe(str, row.get("name")))
    topics = {name: _topic(topic) for name, topic in row["topics"].items()}
    return KafkaSource(of_kind(str, row["cluster"]), topics, _maybe(str, row.get("name")))


def _topic(row: dict[str, Any]) -> TopicEnd:
    began = _by_number(row["began"]) if "began" in row else None
    return TopicEnd(of_kind(str, row["id"]), _by_number(row["end"]), began)


def _by_number(offsets: Mapping[str, Any]) -> dict[int, int]:
    return {int(partition): of_kind(int, offset) for partition, offset in offsets.items()}


def progress_key(prefix: str, scope: str) -> bytes:
    """Return the key of a prefix's progress, in the shape of Connect's offsets topic."""
    return json.dumps([prefix, {"scope": scope}], sort_keys=True, separators=(",", ":")).encode()


def is_progress_key(key: bytes | None) -> bool:
    """Return whether a record with this key belongs to a progress topic: all of its keys are a name and a scope."""
    try:
        value = json.loads(key or b"")
    except ValueError:
        return False
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and isinstance(value[1], dict)
        and isinstance(value[1].get("scope"), str)
    )


def claim_key(prefix: str) -> bytes:
    """Return the key of a prefix's claims."""
    return progress_key(prefix, "claim")


def claim_value(begins: int) -> bytes:
    """Return the value of a claim: the latest known start of the log when nothing of its prefix was missing."""
    return write_object({"v": CLAIM_VERSION, "begins": begins})


def claimed_from(text: bytes, where: str) -> int:
    """Return where the log began when a claim was written. Raise as :meth:`Progress.decode` does."""
    try:
        value = read_object(text)
        if is_version(value["v"], 1):  # which did not say it: a log begins at 0 unless something cut it
            return 0
        _check_version(value["v"], where, CLAIM_VERSION)
        return of_kind(int, value["begins"])
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(where, error) from None


#: The value of looks, which says nothing: their offset is what their writer wanted.
LOOK = write_object({"v": VERSION})


def look_key(prefix: str) -> bytes:
    """Return the key of a record that bounds a read as a claim does, for a reader that does not know whether all of the
    prefix's progress is there.
    """
    return progress_key(prefix, "look")


def decided_key(prefix: str, writer: str) -> bytes:
    """Return the key of a record that says how a transaction ended whose marker was lost.

    Each has a key of its own, by ``writer``: of two that contradict each other the first one counts, and compaction
    would keep the last one.
    """
    return json.dumps([prefix, {"scope": "decided", "writer": writer}], sort_keys=True, separators=(",", ":")).encode()


def ended_key(prefix: str) -> bytes:
    """Return the key of the note that all that a record enlists has ended."""
    return progress_key(prefix, "ended")


def ended_value(producer_id: int, epoch: int) -> bytes:
    """Return the note's value: who wrote the record."""
    return write_object({"v": VERSION, "producer": producer_id, "epoch": epoch})


def ended_by(text: bytes, where: str) -> tuple[int, int]:
    """Return the producer id and epoch of a note. Raises as :meth:`Progress.decode` does."""
    try:
        value = read_object(text)
        _check_version(value["v"], where)
        return of_kind(int, value["producer"]), of_kind(int, value["epoch"])
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(where, error) from None


def key_head(key: bytes) -> bytes:
    """Return the common beginning of the keys of one prefix in any scope, by one of them."""
    return key[: key.rindex(b'"scope":')]
