"""The leaders that had no news for a standing reader: each may be asked for the same again, in a few bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from semel.errors import ConfigError
from semel.wire.client import Client
from semel.wire.metadata import Topic

__all__ = ["QuietLeaders"]


class QuietLeaders:
    """Nodes without news, and the metadata by which each was asked."""

    def __init__(self) -> None:
        self.nodes: set[int] = set()
        self._seen: dict[int, dict[str, Topic]] = {}

    def asked(self, node: int, names: Iterable[str], topics: Mapping[str, Topic]) -> None:
        """Take note of the metadata by which a node is asked for partitions of these topics."""
        self._seen[node] = {name: topics[name] for name in names}

    def take(self) -> set[int]:
        """Return the nodes, and forget them."""
        nodes, self.nodes = self.nodes, set()
        return nodes

    def still_lead(self, client: Client) -> bool:
        """Return whether the newest metadata is that by which they were asked. It is refreshed by its age."""
        try:
            return all(client.topics(seen.keys()) == seen for seen in (self._seen[node] for node in self.nodes))
        except ConfigError as error:
            if error.tag != "UNKNOWN_TOPIC":
                raise
            return False
