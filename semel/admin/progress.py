"""The newest committed progress of each prefix, for the operator.

It writes nothing, not even a claim, so it reads to the end that the brokers report. That is good enough for people, but
no basis for decisions (PROTOCOL 2 defines that).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from semel.errors import ConfigError
from semel.read.raw_log import EndMarker, LogRecord, read_raw
from semel.transaction.progress.log import parse_progress_log
from semel.transaction.progress.record import Progress
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.client import Client

__all__ = ["PrefixProgress", "list_progress"]

#: Scopes of progress; other scopes are notes between owners.
_SCOPES = ("batch", "mirror", "producer", "query")


@dataclass(frozen=True, slots=True)
class PrefixProgress:
    """A prefix in one scope: its newest committed progress (None if nothing was ever committed), and a flag for an open
    transaction. ``committed_ms`` is the time of that commit, by the brokers' clock; -1 without one.
    """

    prefix: str
    scope: str
    progress: Progress | None
    open: bool
    committed_ms: int = -1


def list_progress(client: Client, *, progress_topic: str = DEFAULT_TOPIC) -> list[PrefixProgress]:
    """Return the progress of every prefix, by name. Prefixes whose progress was forgotten are left out.

    Raise :class:`~semel.errors.ConfigError` if there is no progress topic.
    """
    deadline = client.deadline()
    topic = client.existing({progress_topic}, deadline).get(progress_topic)
    if topic is None:
        raise ConfigError(
            f"the progress topic {progress_topic} does not exist: nothing has been written here yet, or progress is"
            " kept in another topic (--progress-topic). Nothing was changed. The first query, batch job or producer"
            " makes it: do not make it by hand.",
            tag="UNKNOWN_TOPIC",
        )
    partitions = [(progress_topic, index) for index in topic.partitions]
    ends = list_offsets(client, dict.fromkeys(partitions, LATEST), read_committed=False, deadline=deadline)
    prefixes: list[PrefixProgress] = []
    for partition in partitions:
        where = f"{partition[0]}-{partition[1]}"
        for key, events in _by_key(read_raw(client, partition, ends[partition].offset, client.deadline())).items():
            name = _name(key)
            if name is not None:
                settled = parse_progress_log(events, key, where)
                newest = settled.newest
                if settled.forgotten and not settled.open:
                    continue
                progress, ended = (newest.progress, newest.ended_ms) if newest is not None else (None, -1)
                prefixes.append(PrefixProgress(*name, progress, bool(settled.open), ended))
    return sorted(prefixes, key=lambda one: (one.prefix, one.scope))


def _by_key(events: Iterable[LogRecord | EndMarker]) -> dict[bytes, list[LogRecord | EndMarker]]:
    """Return the records of each key, with the markers of their producers."""
    of_key: dict[bytes, list[LogRecord | EndMarker]] = defaultdict(list)
    written: dict[int, set[bytes]] = defaultdict(set)
    for event in events:
        if isinstance(event, EndMarker):
            for key in written.pop(event.producer_id, ()):
                of_key[key].append(event)
        elif event.key is not None and event.transactional:
            of_key[event.key].append(event)
            written[event.producer_id].add(event.key)
    return of_key


def _name(key: bytes) -> tuple[str, str] | None:
    """Return prefix and scope of a key, or None if it is no progress."""
    try:
        prefix, scope = json.loads(key)
        return (str(prefix), str(scope["scope"])) if scope["scope"] in _SCOPES else None
    except (ValueError, TypeError, KeyError):
        return None
