"""The topics that a task writes to."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from semel.connect.stores.own_offsets import Offsets
from semel.connect.tasks.rows import Rows
from semel.connect.tasks.topic_creation import TopicCreation
from semel.errors import ConfigError
from semel.transaction.output_topics import OutputTopics
from semel.transaction.ticket import TicketTopic
from semel.wire.client import Client

__all__ = ["Outputs"]


class Outputs:
    """The topics that a task writes to."""

    def __init__(self, client: Client, store: Offsets, creation: TopicCreation | None = None) -> None:
        self._client, self._store, self._creation = client, store, creation
        self.topics: Mapping[str, TicketTopic] = {}
        self._known = OutputTopics(client)
        #: While a transaction is open: it has its ticket for the partitions that topics had.
        self.fixed = False

    def by_topic(self, rows: Rows) -> dict[str, pa.Table]:
        """Return one table for each topic, and have the facts about these topics."""
        self._describe({topic for topic, _ in rows.tables})
        tables: dict[str, list[pa.Table]] = {}
        for topic, table in rows.tables:
            tables.setdefault(topic, []).append(table)
        return {topic: pa.concat_tables(some, promote_options="default") for topic, some in tables.items()}

    def refusal(self, topic: str, table: pa.Table) -> ConfigError | None:
        """Why this topic would not take one of the rows, such as one that is too large; None where it takes them."""

        def describe() -> Mapping[str, TicketTopic]:
            self._describe({topic})
            return self.topics

        return self._known.refusal(topic, table, describe)

    def _describe(self, names: set[str]) -> None:
        if self._store.topic in names:
            raise ConfigError(
                f"records were to be written to {self._store.topic}, which holds the offsets of this connector: source"
                " tasks may not produce to their own offsets topics. Nothing of this poll is visible. Write them to"
                " another topic.",
                tag="OFFSETS_TOPIC",
            )
        creation = self._creation

        def create(missing: set[str]) -> None:
            if creation is not None:
                creation.create_missing(self._client, missing & names)

        wanted = {*names, self._store.topic}
        self.topics = self._known.describe(wanted, self._client.deadline(), renew=not self.fixed, create=create)
