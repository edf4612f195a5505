"""Topologies with the words of the third release, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.streams.oracle.drafts import Stream, TableDraft

__all__ = ["ThirdDraft"]


class ThirdDraft(TableDraft):
    """A topology with streams that are aggregated together, too."""

    def second(self) -> Sequence[Callable[[], None]]:
        often = (self.cogroup, self.join_global, self.foreign, self.limit, self.close)
        return (*often * 8, *super().second()[:16])

    def sources(self) -> None:
        """Read a global table, too, in most topologies."""
        super().sources()
        if self.draw.random() < 0.6:
            self.globals.append(self.add("global_table", topic="g", name="g-table"))

    def join_global(self) -> None:
        """Join a stream with the global table, by a key of its value or by its own."""
        if self.globals:
            stream = self.open(counts=False)
            more = {"n": self.draw.randint(2, 4)} if self.draw.random() < 0.6 else {}
            op = self.draw.choice(("global_join", "global_left_join"))
            made = self.add(op, stream, table=self.globals[0], **more)
            self.streams.append(Stream(made, stream.rekeyed, stream.processed))

    def cogroup(self) -> None:
        """Aggregate several streams into one table, which may be of windows."""
        streams: list[Stream] = []
        for _ in range(self.draw.randint(1, 3)):
            stream = self.open(counts=False)
            if not (stream.rekeyed and any(one.rekeyed for one in streams)):  # of equal times none is first
                streams.append(stream)
        way = self.draw.choice(("", "", "", "windows", "session", "sliding"))
        more: dict[str, Any] = {}
        if way == "windows":
            size = self.draw.choice((5, 10))
            more["windows"] = [size, self.draw.choice((size, size // 2)), self.draw.choice((0, 4))]
        elif way:
            more[way] = [self.draw.choice((1, 3, 6)), self.draw.choice((0, 4))]
        made = self.add("cogroup", streams[0], many=[one.id for one in streams], name=self.name("together"), **more)
        if not way:
            self.tables.append(Stream(made))
        self.streams.append(Stream(self.add("to_stream", Stream(made)), windowed=bool(way)))

    def foreign(self) -> None:
        """Join a table with another one by a key of its values."""
        tables = [one for one in self.tables if not one.counts]
        if len(tables) < 2 or sum(step["op"] == "foreign_join" for step in self.steps):
            return
        one, other = self.draw.sample(tables, 2)
        kind = self.draw.choice(("join", "left_join"))
        joining: dict[str, Any] = {"with": other.id, "kind": kind, "n": self.draw.randint(2, 4)}
        if self.draw.random() < 0.6:
            self.keep(self.add("foreign_join", one, name=self.name("kept"), **joining))
        else:  # Kafka Streams keeps no store then, and a filter of it would delete keys that were never there
            made = self.add("foreign_join", one, **joining)
            self.streams.append(Stream(self.add("to_stream", Stream(made))))

    def limit(self) -> None:
        """Let updates of windows wait for a time."""
        kind = self.draw.choice(("count", "reduce", "aggregate"))
        way, size, grace = self.draw.choice(("windows", "session", "sliding")), self.draw.choice((5, 10)), 4
        more = {way: [size, size, grace] if way == "windows" else [self.draw.choice((1, 3, 6)), grace]}
        table = Stream(self.add("fold", self.open(counts=kind == "count"), kind=kind, name=self.name("kept"), **more))
        most = {"most": 2} if self.draw.random() < 0.4 else {}
        table = Stream(self.add("suppress", table, n=self.draw.choice((1, 4, 9)), **most))
        self.streams.append(Stream(self.add("to_stream", table), windowed=True, counts=kind == "count"))

    def close(self) -> None:
        """Hand windows on when they close."""
        kind = self.draw.choice(("count", "reduce", "aggregate"))
        more = {self.draw.choice(("session", "sliding")): [self.draw.choice((1, 3, 6)), self.draw.choice((0, 0, 4))]}
        stream = self.open(counts=kind == "count")
        table = Stream(self.add("fold", stream, kind=kind, name=self.name("kept"), close=True, **more))
        self.streams.append(Stream(self.add("to_stream", table), windowed=True, counts=kind == "count"))
