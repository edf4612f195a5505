"""Processors: your own class that works on single records, with stores, as in Kafka Streams' Processor API.

Each task has its own processor. Be careful of what it keeps in memory: that is lost when the task moves or a
transaction is aborted. What it puts into its stores is not lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from semel.errors import ConfigError, Unsupported
from semel.serdes.serde import Serde
from semel.streams.dropped import DroppedRecords
from semel.streams.nodes.stateless import rows_from_results
from semel.streams.processor.stores import KeyValueStore, StoreBuilder, WindowStore
from semel.streams.rows import Record, calling, records
from semel.streams.state.state_store import StateStore
from semel.streams.windows.duration import milliseconds

__all__ = ["Context", "Processing", "Processor", "PunctuationType", "Supplier"]


class PunctuationType(Enum):
    """The kind of time of a punctuator."""

    STREAM_TIME = "the highest time of the records so far"
    WALL_CLOCK_TIME = "the machine's clock; not there yet"


class Processor:
    """Subclass it. Its context is ``self.context`` from :meth:`init` on."""

    context: Context

    def init(self, context: Context) -> None:
        """Prepare the processor. Called once, before the first record."""
        self.context = context

    def process(self, record: Record) -> None:
        """Work on one record."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what the processor holds. Called when its task ends."""


#: Makes a processor for each task: a class, or a function without arguments.
Supplier = Callable[[], Processor]


@dataclass
class _Punctuator:
    interval_ms: int
    call: Callable[[int], Any]
    next_ms: int = 0


class Context:
    """The tools of a processor: its stores, its output, and its schedule."""

    def __init__(self, name: str, views: Mapping[str, KeyValueStore | WindowStore]) -> None:
        self._name, self._views = name, views
        self._punctuators: list[_Punctuator] = []
        self._now = -1
        self.stream_time = -1
        self.forwarded: list[tuple[Any, Any, int]] = []

    def store(self, name: str) -> Any:
        """Return a store of this processor. Raise :class:`ConfigError` for one that it was not given."""
        if name not in self._views:
            raise ConfigError(
                f"{self._name} has no store {name!r}: it was given {', '.join(sorted(self._views)) or 'none'}. Nothing"
                " of this transaction is visible. Name it in process(..., stores=[...]).",
                tag="TOPOLOGY",
            )
        return self._views[name]

    def forward(self, key: Any, value: Any, *, timestamp: int | None = None) -> None:
        """Forward a record. Its time is that of the current record, unless one is given."""
        self.forwarded.append((key, value, self._now if timestamp is None else timestamp))

    def schedule(
        self,
        interval: str | int,
        punctuator: Callable[[int], Any],
        kind: PunctuationType = PunctuationType.STREAM_TIME,
    ) -> None:
        """Call a function with the time, each interval of stream time: with the first record, then at multiples of the
        interval. After a restart it begins so again, as in Kafka Streams.

        Raises :class:`Unsupported` for ``WALL_CLOCK_TIME``.
        """
        if kind is not PunctuationType.STREAM_TIME:
            raise Unsupported(
                f"{self._name}: punctuators by the machine's clock are not there yet. Nothing of this transaction is"
                " visible. Use STREAM_TIME, or send records that say when.",
                tag="NOT_YET",
            )
        self._punctuators.append(_Punctuator(milliseconds(interval, "interval"), punctuator))

    def _at(self, timestamp: int) -> None:
        self._now = timestamp
        for view in self._views.values():
            view.now = timestamp

    def _punctuate(self) -> None:
        for one in self._punctuators:
            if self.stream_time >= one.next_ms:
                one.next_ms = self.stream_time - self.stream_time % one.interval_ms + one.interval_ms
                self._at(self.stream_time)
                one.call(self.stream_time)


@dataclass
class Processing:
    """The operator of one task: calls its processor for each record."""

    name: str
    supplier: Supplier
    builders: Sequence[StoreBuilder]
    given: tuple[Serde, Serde]
    made: tuple[Serde, Serde]
    dropped: DroppedRecords
    _processor: Processor | None = None
    _context: Context = field(init=False)

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """Return the records that the processor has forwarded."""
        parents: list[int] = []
        late = self._late(stores)
        for at, record in enumerate(records(rows, *self.given)):
            calling(self._process, self.name, record, record, stores)
            parents += [at] * (len(self._context.forwarded) - len(parents))
        self.dropped.count(self.name, self._late(stores) - late, "windows that are older than the retention")
        forwarded = self._context.forwarded if parents else []
        if parents:
            self._context.forwarded = []
        keys, values, times = ([row[at] for row in forwarded] for at in range(3))
        return rows_from_results(rows, self.name, keys, values, parents, self.made, times)

    def _late(self, stores: Mapping[str, StateStore]) -> int:
        return sum(stores[one.spec.name].late for one in self.builders)

    def _process(self, record: Record, stores: Mapping[str, StateStore]) -> None:
        if self._processor is None:
            self._processor = self.supplier()
            self._context = Context(
                self.name, {one.spec.name: one.view(stores[one.spec.name]) for one in self.builders}
            )
            self._processor.init(self._context)
        context = self._context
        context._at(record.timestamp)
        self._processor.process(record)
        context.stream_time = max(context.stream_time, record.timestamp)
        context._punctuate()

    def close(self) -> None:
        """Close the processor when its task ends."""
        if self._processor is not None:
            self._processor.close()
