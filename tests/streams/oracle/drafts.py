"""Topologies that are made at random, of the words of one release or another."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["BadDraft", "Draft", "NewDraft", "Stream", "TableDraft", "WordDraft"]


@dataclass
class Stream:
    """A stream or a table. ``counts`` are whole numbers without a serialisation."""

    id: int
    rekeyed: bool = False
    processed: bool = False
    windowed: bool = False
    counts: bool = False


@dataclass
class Draft:
    """A topology that is being made."""

    draw: random.Random
    steps: list[dict[str, Any]] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    tables: list[Stream] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)
    globals: list[int] = field(default_factory=list)
    number: int = 0

    def add(self, op: str, of: Stream | None = None, **more: Any) -> int:
        self.number += 1
        self.steps.append({"op": op, "id": self.number, **({"of": of.id} if of else {}), **more})
        return self.number

    def name(self, prefix: str) -> str:
        return f"{prefix}{self.number}"

    def open(self, *, keyed: bool = False, counts: bool = True) -> Stream:
        """Return a stream without windows, of equal keys together if ``keyed``."""
        stream = self.draw.choice([one for one in self.streams if not one.windowed and (counts or not one.counts)])
        if keyed and stream.rekeyed and not stream.processed:
            stream = Stream(self.add("repartition", stream, name=self.name("through")))
            self.streams.append(stream)
        return stream

    def second(self) -> Sequence[Callable[[], None]]:
        """Return more words: none."""
        return ()

    # ---- words

    def filter(self) -> None:
        stream, n = self.draw.choice(self.streams), self.draw.randint(2, 3)
        op = self.draw.choice(("filter", "filter_not"))
        made = self.add(op, stream, n=n, **{"is": self.draw.randrange(n)})
        self.streams.append(Stream(made, stream.rekeyed, stream.processed, stream.windowed, stream.counts))

    def map_values(self) -> None:
        stream = self.open()
        made = self.add("map_values", stream, n=self.draw.randint(3, 7), **{"is": 0})
        self.streams.append(Stream(made, stream.rekeyed, stream.processed))

    def map(self) -> None:
        op = self.draw.choice(("map", "flat_map", "select_key"))
        self.streams.append(Stream(self.add(op, self.open(counts=False), n=self.draw.randint(2, 4)), rekeyed=True))

    def branch(self) -> None:
        stream = self.open()
        ids = [self.number + 1, self.number + 2]
        self.steps.append({"op": "branch", "of": stream.id, "ids": ids, "n": self.draw.randint(2, 4)})
        self.number += 2
        self.streams += [Stream(one, stream.rekeyed, stream.processed, counts=stream.counts) for one in ids]

    def merge(self) -> None:
        some, others = self.open(), self.open()
        if some.id != others.id and some.counts == others.counts:
            made = self.add("merge", some, **{"with": others.id})
            processed = all(one.processed for one in (some, others) if one.rekeyed)
            rekeyed = some.rekeyed or others.rekeyed
            self.streams.append(Stream(made, rekeyed, processed, counts=some.counts))

    def fold(self) -> None:
        more: dict[str, Any] = {"by": self.draw.randint(2, 4)} if self.draw.random() < 0.3 else {}
        kind = self.draw.choice(("count", "count", "reduce", "aggregate"))
        stream = self.open(counts=kind == "count" and not more)
        if self.draw.random() < 0.35:
            size = self.draw.choice((5, 10, 20))
            more["windows"] = [size, self.draw.choice((size, size // 2 or 1)), self.draw.choice((0, 0, 7))]
        table = Stream(self.add("fold", stream, kind=kind, name=self.name("kept"), **more), windowed="windows" in more)
        table.counts = kind == "count"
        if not table.windowed:
            self.tables.append(table)
        if self.draw.random() < 0.8 or table.windowed:
            made = self.add("to_stream", table)
            self.streams.append(Stream(made, windowed=table.windowed, counts=kind == "count"))

    def join(self) -> None:
        if self.tables:
            table, op = self.draw.choice(self.tables), self.draw.choice(("join", "left_join"))
            self.streams.append(Stream(self.add(op, self.open(), table=table.id)))

    def process(self) -> None:
        stream = self.open(keyed=True)
        if not self.stores or self.draw.random() < 0.5:
            self.stores.append(self.name("own"))
            self.steps.append({"op": "store", "name": self.stores[-1]})
        kind = self.draw.choice(("tally", "tally", "look", "look", "delete", "first", "tick"))
        made = self.add("process", stream, kind=kind, name=self.draw.choice(self.stores), n=self.draw.randint(3, 12))
        self.streams.append(Stream(made, rekeyed=True, processed=True))

    def to(self) -> None:
        stream = self.draw.choice(self.streams)
        self.steps.append({"op": "to", "of": stream.id, "name": f"out{self.draw.randrange(3)}"})


class WordDraft(Draft):
    """A topology with the words of the second release, too."""

    def second(self) -> Sequence[Callable[[], None]]:
        often = (self.meet, self.keyed, self.suppress, self.values)
        return (*often * 4, *(self.small,) * 3, *(self.tally,) * 2)

    def small(self) -> None:
        """Take a word that changes values or nothing."""
        stream = self.open(counts=False)
        op = self.draw.choice(("flat_map_values", "peek"))
        made = self.add(op, stream, n=self.draw.randint(2, 4))
        self.streams.append(Stream(made, stream.rekeyed, stream.processed))

    def values(self) -> None:
        """Work on the values of a table, which may be a stream's."""
        table = self.draw.choice(self.tables) if self.tables and self.draw.random() < 0.5 else None
        if table is None or table.counts:
            stream = self.open(counts=False)
            table = Stream(self.add("to_table", stream, name=self.name("table")))
            self.tables.append(table)
        if self.draw.random() < 0.8:
            made = self.add("table_map", table, n=3, **{"is": 1})
            table = Stream(made)
        self.streams.append(Stream(self.add("to_stream", table)))

    def tally(self) -> None:
        stream = self.open(keyed=True)
        name = self.name("sums")
        self.steps.append({"op": "store", "name": name})
        made = self.add("process_values", stream, name=name)
        self.streams.append(Stream(made, stream.rekeyed, stream.processed))

    def to(self) -> None:
        super().to()
        if self.draw.random() < 0.4:
            self.steps[-1]["n"] = 2

    def sources(self) -> None:
        """Read a topic, or two as one stream."""
        if self.draw.random() < 0.2:
            self.streams.append(Stream(self.add("stream", name="d", topics=["d", "e"])))

    def suppress(self) -> None:
        """Aggregate, and let the updates wait; or count windows that are handed on when they close."""
        kind = self.draw.choice(("count", "reduce", "aggregate"))
        stream = self.open(counts=kind == "count")
        more: dict[str, Any] = {}
        wait: dict[str, Any] = {"n": 0}
        way = self.draw.choice(("limit", "windows", "session", "sliding", "close"))
        if way == "limit":
            wait = {"n": self.draw.choice((1, 4, 9)), **({"most": 2} if self.draw.random() < 0.4 else {})}
        elif way in ("windows", "close"):
            size = self.draw.choice((5, 10))
            more["windows"] = [size, self.draw.choice((size, size // 2)), self.draw.choice((0, 4))]
        else:
            more[way] = [self.draw.choice((1, 3, 6)), self.draw.choice((0, 4))]
        if way == "close":
            kind, more["close"] = "count", True
        table = Stream(self.add("fold", stream, kind=kind, name=self.name("kept"), **more))
        if way != "close":
            table = Stream(self.add("suppress", table, **wait))
        made = self.add("to_stream", table)
        self.streams.append(Stream(made, windowed=way != "limit", counts=kind == "count"))

    def keyed(self) -> None:
        """Aggregate in sessions, or in sliding windows."""
        more: dict[str, Any] = {"by": self.draw.randint(2, 4)} if self.draw.random() < 0.3 else {}
        kind = self.draw.choice(("count", "reduce", "aggregate"))
        stream = self.open(counts=kind == "count" and not more)
        more[self.draw.choice(("session", "sliding"))] = [self.draw.choice((1, 3, 6)), self.draw.choice((0, 0, 2, 9))]
        table = Stream(self.add("fold", stream, kind=kind, name=self.name("kept"), **more))
        self.streams.append(Stream(self.add("to_stream", table), windowed=True, counts=kind == "count"))

    def meet(self) -> None:
        streams = [one for one in self.streams if not one.windowed and not one.counts]
        if not streams or sum(step["op"] == "meet" for step in self.steps) > 1:
            return
        left, right = self.draw.choice(streams), self.draw.choice(streams)
        kind = self.draw.choice(("join", "left_join", "outer_join"))
        near = [*(self.draw.choice((0, 2, 5, 9)) for _ in range(2)), self.draw.choice((0, 0, 4))]
        more = {"name": self.name("met")} if self.draw.random() < 0.3 else {}
        made = self.add("meet", left, **{"with": right.id}, kind=kind, windows=near, **more)
        self.streams.append(Stream(made))


class TableDraft(WordDraft):
    """A topology with the words of tables, too."""

    def second(self) -> Sequence[Callable[[], None]]:
        often = (self.table_filter, self.table_join, self.table_join, self.table_fold, self.windows_filter)
        return (*often * 6, *super().second()[:8])

    def a_table(self) -> Stream:
        """Return a table, which may be made of a stream."""
        if not self.tables or self.draw.random() < 0.25:
            stream = self.open(counts=False)
            self.tables.append(Stream(self.add("to_table", stream, name=self.name("table"))))
        return self.draw.choice(self.tables)

    def keep(self, made: int, *, counts: bool = False) -> None:
        """Use a table, and mostly its changes."""
        table = Stream(made, counts=counts)
        self.tables.append(table)
        if self.draw.random() < 0.2:
            table = Stream(self.add("suppress", table, n=self.draw.choice((1, 5))))
        if self.draw.random() < 0.8:
            self.streams.append(Stream(self.add("to_stream", table), counts=counts))

    def table_filter(self) -> None:
        table, n = self.a_table(), self.draw.randint(2, 3)
        op = self.draw.choice(("table_filter", "table_filter_not"))
        self.keep(self.add(op, table, n=n, **{"is": self.draw.randrange(n)}), counts=table.counts)

    def table_join(self) -> None:
        kind = self.draw.choice(("join", "left_join", "outer_join"))
        self.keep(self.add("table_join", self.a_table(), **{"with": self.a_table().id}, kind=kind))

    def table_fold(self) -> None:
        kind = self.draw.choice(("count", "reduce", "aggregate"))
        made = self.add("table_fold", self.a_table(), kind=kind, name=self.name("kept"), n=self.draw.randint(1, 3))
        self.keep(made, counts=kind == "count")

    def windows_filter(self) -> None:
        """Filter windows."""
        kind = self.draw.choice(("count", "reduce", "aggregate"))
        size = self.draw.choice((5, 10))
        more = self.draw.choice(
            (
                {"windows": [size, self.draw.choice((size, size // 2)), self.draw.choice((0, 4))]},
                {"session": [self.draw.choice((1, 3, 6)), self.draw.choice((0, 4))]},
                {"sliding": [self.draw.choice((1, 3, 6)), self.draw.choice((0, 4))]},
            )
        )
        stream = self.open(counts=kind == "count")
        table = Stream(self.add("fold", stream, kind=kind, name=self.name("kept"), **more))
        table = Stream(self.add("table_filter", table, n=2, **{"is": self.draw.randrange(2)}))
        self.streams.append(Stream(self.add("to_stream", table), windowed=True, counts=kind == "count"))


class NewDraft(TableDraft):
    """A topology with headers, timestamps of its own, functions that the clock calls, and nodes with names."""

    def second(self) -> Sequence[Callable[[], None]]:
        return (*(self.clock, self.name_nodes) * 6, *super().second()[:20])

    def sources(self) -> None:
        """Give sources extractors."""
        super().sources()
        for step in self.steps:
            if step["op"] in ("stream", "table") and self.draw.random() < 0.4:
                step["extractor"] = "value"

    def clock(self) -> None:
        """Have a processor be called by the clock."""
        stream = self.open(keyed=True)
        self.stores.append(self.name("own"))
        self.steps.append({"op": "store", "name": self.stores[-1]})
        made = self.add("process", stream, kind="clock", name=self.stores[-1], n=self.draw.randint(3, 12))
        self.streams.append(Stream(made, rekeyed=True, processed=True))

    def name_nodes(self) -> None:
        """Count under names of which only some are given."""
        stream, name = self.open(counts=False), self.name("named")
        how = {"n": self.draw.randint(2, 4), "is": self.draw.randrange(2)}
        table = Stream(self.add("named", stream, name=name, **how), counts=True)
        self.tables.append(table)
        self.streams.append(Stream(self.add("to_stream", table), counts=True))


class BadDraft(Draft):
    """A topology whose functions fail at some records, before any aggregation."""

    def second(self) -> Sequence[Callable[[], None]]:
        return (self.picky,) * 8

    def picky(self) -> None:
        """Take a word that fails at some values."""
        n = self.draw.randint(2, 4)
        how: dict[str, Any] = {"n": n, "is": self.draw.randrange(n)}
        made = {step["id"] for step in self.steps if step["op"] in ("stream", "picky", "map_values", "filter", "map")}
        stream = self.draw.choice([one for one in self.streams if one.id in made])
        op = self.draw.choice(("picky", "picky", "picky_filter", "picky_map", "picky_fold", "picky_windows"))
        if op in ("picky", "picky_filter"):
            self.streams.append(Stream(self.add(op, stream, **how), stream.rekeyed, stream.processed))
        elif op == "picky_map":
            self.streams.append(Stream(self.add(op, stream, **how), rekeyed=True))
        else:
            self.tables.append(Stream(self.add(op, stream, name=self.name("kept"), **how)))
            if op == "picky_fold":
                self.streams.append(Stream(self.add("to_stream", self.tables[-1])))
            else:
                self.tables.pop()
