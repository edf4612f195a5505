"""The topics that are written: what a writer must know of them, read once by the owner and carried by the tickets."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from semel.errors import ConfigError, SemelError
from semel.records.codecs import Codec
from semel.records.encode import check_rows
from semel.transaction.ticket import NO_TRANSACTION, Ticket, TicketTopic
from semel.wire.api import topics
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition

__all__ = [
    "OutputTopics",
    "describe_output_topics",
    "max_message_bytes",
    "max_message_bytes_of",
    "non_transactional_tickets",
]

#: The broker's default of max.message.bytes.
_DEFAULT_MAX_BYTES = 1_048_588
#: How long the configuration of a topic is taken to be as it was.
_FACTS_HOLD_MS = 60_000
#: For how long what was asked of topics is sure enough to leave a record out, in seconds.
_RECENT_S = 10.0


class OutputTopics:
    """Output topics that many short transactions write: looked at once a minute, or in ``metadata.max.age.ms``, and
    not by each.

    A look before each commit, and :meth:`look_ahead`, show a topic that has grown or was created again: what is known
    of it is asked again then. So it is after an error: :meth:`forget` it.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self._facts: dict[str, TicketTopic] = {}
        self._retention: dict[str, int | None] = {}
        self._warned: set[str] = set()
        self._described = -math.inf
        self._looking: threading.Thread | None = None

    def describe(
        self,
        names: Collection[str],
        deadline: Deadline,
        *,
        renew: bool = True,
        create: Callable[[set[str]], None] | None = None,
        max_age_ms: float = 0,
    ) -> Mapping[str, TicketTopic]:
        """Return the answer of :func:`describe_output_topics`, or a recent one. ``create`` creates missing topics.

        Without ``renew`` nothing changes that was known: a transaction is open, and has its tickets by it. What is
        asked for may be read from metadata of ``max_age_ms``.
        """
        if self._looking is not None:
            self._looking.join()
        anew = renew and (self.age_s * 1000 >= self._longest_ms or self._have_changed(names))
        facts = {} if anew else self._facts
        unknown = set(names) - facts.keys()
        if unknown:
            if create is not None:
                create(unknown)
            facts = facts | describe_output_topics(self.client, unknown, deadline, max_age_ms=max_age_ms)
        if anew:  # and not before: what was known stays known where the brokers do not answer
            self._described = time.monotonic()
            self._retention.clear()
        self._facts = facts
        return facts

    def look_ahead(self) -> None:
        """Look in a thread of its own whether the known topics have grown or were created again: :meth:`describe`
        waits for it.
        """
        if self._facts:
            self._looking = threading.Thread(target=self._look, name="semel-topics", daemon=True)
            self._looking.start()

    def _look(self) -> None:
        with suppress(SemelError):  # what cannot be asked now is said by who needs it
            self.client.existing(self._facts.keys(), self.client.deadline())

    @property
    def _longest_ms(self) -> float:
        return min(_FACTS_HOLD_MS, self.client.config.metadata_max_age_ms)

    def _have_changed(self, names: Collection[str]) -> bool:
        """Return whether newer metadata, which others have asked for, name another topic, other partitions, or none."""
        known = self._facts.keys() & names
        newest = {name: (topic.id, len(topic.partitions)) for name, topic in self.client.known_topics(known).items()}
        return any(newest.get(name) != (self._facts[name].id, self._facts[name].partitions) for name in known)

    def refusal(self, topic: str, rows: Any, describe: Callable[[], Mapping[str, TicketTopic]]) -> ConfigError | None:
        """Return why a topic would not take one of these rows, such as one that is too large; None where it takes them.
        ``describe`` calls :meth:`describe`, also again: a limit may have been raised.
        """
        found = self._refusal(topic, rows, describe()[topic])
        if found is not None and self.age_s > _RECENT_S:
            self.forget()
            found = self._refusal(topic, rows, describe()[topic])
        return found

    def _refusal(self, topic: str, rows: Any, facts: TicketTopic) -> ConfigError | None:
        config = self.client.config
        codec = Codec.parse(config.compression_type)
        try:
            check_rows(rows, codec=codec, max_bytes=facts.max_bytes, max_record=config.max_request_size, where=topic)
        except ConfigError as error:
            return error
        return None

    @property
    def age_s(self) -> float:
        """The age of this description, in seconds."""
        return time.monotonic() - self._described

    def retention_ms(self, name: str, deadline: Deadline) -> int | None:
        """Return how long the topic keeps rows, by their timestamps, or None for ever or if that is unknown."""
        if name not in self._retention:
            keys = ("cleanup.policy", "retention.ms")
            try:
                settings = topics.topic_config(self.client, name, keys, deadline)
            except ConfigError:  # no right to read it
                settings = {}
            kept = int(settings.get("retention.ms") or -1)
            self._retention[name] = kept if kept >= 0 and "delete" in (settings.get("cleanup.policy") or "") else None
        return self._retention[name]

    def warn_once(self, name: str) -> bool:
        """Return whether a warning of this topic is due. It is due once."""
        due = name not in self._warned
        self._warned.add(name)
        return due

    def forget(self) -> Mapping[str, TicketTopic]:
        """Look again: something that was believed may not hold. Return what was believed."""
        self._described = -math.inf
        return self._facts


def describe_output_topics(
    client: Client, names: Collection[str], deadline: Deadline, *, max_age_ms: float = 0
) -> dict[str, TicketTopic]:
    """Id, number of partitions and largest batch of each topic, as they are now, or were ``max_age_ms`` ago.

    Raises :class:`ConfigError` for one that is not there.
    """
    metadata = client.topics(names, deadline, max_age_ms=max_age_ms) if names else {}
    return {
        name: TicketTopic(metadata[name].id, len(metadata[name].partitions), max_message_bytes(client, name, deadline))
        for name in names
    }


def max_message_bytes(client: Client, name: str, deadline: Deadline | None = None) -> int:
    """Return the size of the largest batch that the topic accepts; the brokers' default if they may not be asked."""
    try:
        settings = topics.topic_config(client, name, ["max.message.bytes"], deadline).get("max.message.bytes")
    except ConfigError:  # no right to read it: the broker refuses what is too large, by name
        settings = None
    return int(settings or _DEFAULT_MAX_BYTES)


def max_message_bytes_of(client: Client, names: Sequence[str]) -> dict[str, int]:
    """Return the size of the largest batch that each topic accepts, as :func:`max_message_bytes` does."""
    found = topics.topic_configs(client, names, ["max.message.bytes"])
    sizes: dict[str, int] = {}
    for name, settings in found.items():
        if isinstance(settings, SemelError) and not isinstance(settings, ConfigError):
            raise settings
        size = None if isinstance(settings, SemelError) else settings.get("max.message.bytes")
        sizes[name] = int(size or _DEFAULT_MAX_BYTES)
    return sizes


def non_transactional_tickets(
    shares: Sequence[Iterable[TopicPartition]], facts: Mapping[str, TicketTopic]
) -> list[Ticket]:
    """Tickets of no transaction: what is written with them is visible at once, and a repeated task writes it again
    (at-least-once).
    """
    wanted = [tuple(sorted(share)) for share in shares]
    return [
        Ticket(number, NO_TRANSACTION, share, {topic: facts[topic] for topic, _ in share})
        for number, share in enumerate(wanted)
    ]
