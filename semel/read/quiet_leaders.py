"""The leaders that had no news for a standing reader: each may be asked for the same again, in a few bytes."""

from __future__ import annotations

from collections.abc import Mapping

from semel.errors import ConfigError
from semel.wire.client import Client
from semel.wire.metadata import Topic

__all__ = ["QuietLeaders"]


class QuietLeaders:
    """Nodes without news, and the metadata by which they were asked."""

    def __init__(self) -> None:
        self.nodes: set[int] = set()
        self._seen: dict[str, Topic] = {}

    def asked_by(self, topics: Mapping[str, Topic]) -> None:
        """Take note of the metadata by which partitions of these topics are asked for."""
        self._seen |= topics

    def take(self) -> set[int]:
        """Return the nodes, and forget them."""
        nodes, self.nodes = self.nodes, set()
        return nodes

    def still_lead(self, client: Client) -> bool:
        """Return whether the newest metadata is that by which they were asked. It is refreshed by its age."""
        try:
            same = client.topics(self._seen.keys()) == self._seen
        except ConfigError as error:
            if error.tag != "UNKNOWN_TOPIC":
                raise
            same = False
        if not same:
            self._seen = {}
        return same
