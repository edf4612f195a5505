"""Topologies with versioned tables and stores, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.streams.oracle.drafts import Stream, WordDraft

__all__ = ["VersionDraft"]


class VersionDraft(WordDraft):
    """A topology with a versioned table, and with processors that have a store of versions."""

    def sources(self) -> None:
        super().sources()
        history = self.draw.choice((0, 2, 5, 20))
        self.versions = Stream(self.add("versioned", topic="v", name="v-VERSIONED-table", n=history))

    def second(self) -> Sequence[Callable[[], None]]:
        often = (self.as_of, self.as_of, self.look, self.versions_stream)
        return (*often * 8, *super().second())

    def as_of(self) -> None:
        """Join a stream with the version of its time."""
        stream, op = self.open(counts=False), self.draw.choice(("join", "left_join"))
        self.streams.append(Stream(self.add(op, stream, table=self.versions.id)))

    def versions_stream(self) -> None:
        self.streams.append(Stream(self.add("to_stream", self.versions)))

    def look(self) -> None:
        """Put versions, and look some up."""
        stream, name = self.open(keyed=True, counts=False), self.name("own-VERSIONED-")
        self.steps.append({"op": "versioned_store", "name": name, "n": self.draw.choice((0, 2, 5, 20))})
        made = self.add("versions", stream, name=name, n=self.draw.choice((0, 1, 3, 9)))
        self.streams.append(Stream(made, rekeyed=True, processed=True))
