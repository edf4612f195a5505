"""Processors: your own class that works on single records, with stores, as in Kafka Streams' Processor API.

Each task has its own processor. Be careful of what it keeps in memory: that is lost when the task moves or a
transaction is aborted. What it puts into its stores is not lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import pyarrow as pa

from semel.errors import ConfigError
from semel.records.record_headers import Headers, headers_column
from semel.serdes.serde import Serde
from semel.streams.clock import now_ms
from semel.streams.dropped import DroppedRecords
from semel.streams.nodes.stateless import rows_from_results
from semel.streams.processor.stores import KeyValueStore, StoreBuilder, VersionedStore, WindowStore
from semel.streams.rows import ORIGIN, WINDOW, Record, calling, records, timestamps
from semel.streams.state.state_store import StateStore
from semel.streams.windows.duration import milliseconds

__all__ = ["Cancellable", "Context", "Processing", "Processor", "PunctuationType", "Supplier"]


class PunctuationType(Enum):
    """The kind of time of a punctuator."""

    STREAM_TIME = "the highest time of the records so far"
    WALL_CLOCK_TIME = "the machine's clock"


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


@dataclass(eq=False)
class Cancellable:
    """A function that is called in intervals, until :meth:`cancel`."""

    interval_ms: int
    call: Callable[[int], Any]
    next_ms: int = 0
    cancelled: bool = False
    kind: PunctuationType = PunctuationType.STREAM_TIME

    def cancel(self) -> None:
        """Call it no more."""
        self.cancelled = True


class _Forwarded(NamedTuple):
    """A record that was forwarded."""

    key: Any
    value: Any
    time: int
    headers: Headers


class Context:
    """The tools of a processor: its stores, its output, and its schedule."""

    def __init__(self, name: str, views: Mapping[str, KeyValueStore | WindowStore | VersionedStore]) -> None:
        self._name, self._views = name, views
        self._punctuators: list[Cancellable] = []
        self._now = -1
        self.stream_time = -1
        #: Whether records keep their keys, and whether a scheduled function is being called.
        self.fixed_key = self.scheduled = False
        self.forwarded: list[_Forwarded] = []
        #: The machine's clock in milliseconds.
        self.clock: Callable[[], int] = now_ms
        #: The headers of the current record.
        self._headers: Headers = ()
        #: Takes what was forwarded before :meth:`forward` returns.
        self.take: Callable[[], None] | None = None

    def store(self, name: str) -> Any:
        """Return a store of this processor. Raise :class:`ConfigError` for one that it was not given."""
        if name not in self._views:
            raise ConfigError(
                f"{self._name} has no store {name!r}: it was given {', '.join(sorted(self._views)) or 'none'}. Nothing"
                " of this transaction is visible. Name it in process(..., stores=[...]).",
                tag="TOPOLOGY",
            )
        return self._views[name]

    def forward(self, key: Any, value: Any, *, timestamp: int | None = None, headers: Headers | None = None) -> None:
        """Forward a record. Its time and its headers are those of the current record, unless others are given."""
        if self.fixed_key:
            raise self._misused("forwards a key in process_values", "Use forward_value(), or process()")
        self._forward(key, value, timestamp, headers)

    def _forward(self, key: Any, value: Any, timestamp: int | None, headers: Headers | None) -> None:
        time = self._now if timestamp is None else timestamp
        self.forwarded.append(_Forwarded(key, value, time, self._headers if headers is None else headers))
        if self.take is not None:
            self.take()

    def forward_value(self, value: Any, *, timestamp: int | None = None, headers: Headers | None = None) -> None:
        """Forward the current record with another value, in ``process_values``. Raise :class:`ConfigError` in a
        scheduled function: no record is there, whose key it could have.
        """
        if not self.fixed_key or self.scheduled:
            raise self._misused("forwards a value where no record's key is", "Use process(), and forward() with a key")
        self._forward(None, value, timestamp, headers)

    def _misused(self, what: str, instead: str) -> ConfigError:
        text = f"{self._name} {what}. Nothing of this transaction is visible. {instead}."
        return ConfigError(text, tag="TOPOLOGY")

    def schedule(
        self,
        interval: str | int,
        punctuator: Callable[[int], Any],
        kind: PunctuationType = PunctuationType.STREAM_TIME,
    ) -> Cancellable:
        """Call a function with the time, each interval of stream time: with the first record, then at multiples of the
        interval. By ``WALL_CLOCK_TIME`` it is called for the first time after the interval, and then at its multiples
        from there. After a restart it begins so again, as in Kafka Streams. What is returned can be cancelled.

        Raises :class:`ConfigError` for an interval of 0.
        """
        interval_ms, first = milliseconds(interval, "interval"), 0
        if interval_ms < 1:
            raise self._misused("schedules a function each 0 ms", "Give an interval of at least 1 ms")
        if PunctuationType(kind) is PunctuationType.WALL_CLOCK_TIME:
            first = self.clock() + interval_ms
        self._punctuators.append(Cancellable(interval_ms, punctuator, first, kind=kind))
        return self._punctuators[-1]

    def punctuators(self, kind: PunctuationType) -> list[Cancellable]:
        """Return the functions that are called in intervals of this kind of time."""
        if any(one.cancelled for one in self._punctuators):
            self._punctuators = [one for one in self._punctuators if not one.cancelled]
        return [one for one in self._punctuators if one.kind is kind]

    def begin(self, timestamp: int, headers: Headers = (), *, by_clock: bool = False) -> None:
        """Take note of the time that what is put and forwarded gets, and of the headers of what is forwarded. A time
        ``by_clock`` is no stream time.
        """
        self._now, self._headers = timestamp, headers
        if not by_clock:
            self.stream_time = max(self.stream_time, timestamp)
        for view in self._views.values():
            view.now, view.record_time = timestamp, self.stream_time if by_clock else timestamp


@dataclass
class Processing:
    """The operator of one task: calls its processor for each record.

    With ``hand_on`` the nodes after it work on a record before :meth:`Context.forward` returns. With ``stops`` it stops
    after the record at which its first punctuator is scheduled: ``left`` are the rows from there on.
    """

    name: str
    supplier: Supplier
    builders: Sequence[StoreBuilder]
    given: tuple[Serde, Serde]
    made: tuple[Serde, Serde]
    dropped: DroppedRecords
    hand_on: Callable[[Any], None] | None = None
    leave_out: Callable[[Any, ConfigError], bool] | None = None
    clock: Callable[[], int] | None = None
    stops: bool = False
    left: Any = None
    #: Whether records keep their keys: :meth:`Context.forward_value` is for them.
    fixed_key: bool = False
    _processor: Processor | None = None
    _context: Context = field(init=False)

    def start(self, stores: Mapping[str, StateStore]) -> None:
        """Make the processor, before the first record of its task."""
        if self._processor is None:
            self._context = Context(
                self.name, {one.spec.name: one.view(stores[one.spec.name]) for one in self.builders}
            )
            self._context.fixed_key, self._context.clock = self.fixed_key, self.clock or now_ms
            self._processor = calling(self._made, self.name, Record(None, None, -1))

    def _made(self) -> Processor:
        processor = self.supplier()
        processor.init(self._context)
        return processor

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """Return the records that the processor has forwarded."""
        assert self._processor is not None
        parents: list[int] = []
        late = self._late(stores)
        stops = self.stops and self.next_ms is None
        for at, record in enumerate(records(rows, *self.given)):
            self._context.begin(record.timestamp, record.headers)
            self._take_at(rows, at)
            try:
                calling(self._processor.process, self.name, record, record)
            except ConfigError as error:  # what it has forwarded and put stays, as in Kafka Streams
                if self.leave_out is None or not self.leave_out(rows.slice(at, 1), error):
                    raise
            parents += [at] * (len(self._context.forwarded) - len(parents))
            if stops and self.next_ms is not None:
                self.left = rows.slice(at)
                break
        self.dropped.count(self.name, self._late(stores) - late, "windows and versions that are too old")
        return self._forwarded(rows, parents)

    def _take_at(self, rows: Any, at: int) -> None:
        hand_on = self.hand_on
        if hand_on is not None:
            self._context.take = lambda: hand_on(self._forwarded(rows, [at]))

    def _forwarded(self, rows: Any, parents: list[int]) -> Any:
        """Return what was forwarded as rows; each was made at its parent among ``rows``."""
        forwarded, self._context.forwarded = self._context.forwarded, []
        keys, values = [one.key for one in forwarded], [one.value for one in forwarded]
        times, headers = [one.time for one in forwarded], [one.headers for one in forwarded]
        made = rows_from_results(rows, self.name, keys, values, parents, self.made, times)
        if "headers" in made.schema.names:
            made = made.drop_columns(["headers"])
        if any(headers):
            made = made.append_column("headers", headers_column(headers))
        if not self.fixed_key:
            return made
        kept = [name for name in ("key", *WINDOW) if name in rows.schema.names]
        taken = rows.select(kept).take(pa.array(parents, pa.int64()))
        columns = {name: made[name] for name in made.schema.names if name != "key"}
        return pa.RecordBatch.from_pydict({**{name: taken[name] for name in kept}, **columns})

    def _late(self, stores: Mapping[str, StateStore]) -> int:
        return sum(stores[one.spec.name].late for one in self.builders)

    @property
    def next_ms(self) -> int | None:
        """The stream time at which its next punctuator is due, or None."""
        return self._next(PunctuationType.STREAM_TIME)

    @property
    def next_clock_ms(self) -> int | None:
        """The time by the machine's clock at which its next punctuator is due, or None."""
        return self._next(PunctuationType.WALL_CLOCK_TIME)

    def _next(self, kind: PunctuationType) -> int | None:
        return min((one.next_ms for one in self._context.punctuators(kind)), default=None)

    def punctuate(self, now: int, row: Any) -> Any:
        """Call the punctuator that is due first. Return what it has forwarded, after this ``row`` of the task."""
        return self._punctuated(PunctuationType.STREAM_TIME, now, row)

    def punctuate_by_clock(self, now: int) -> Any:
        """Call the punctuator that is due first by the machine's clock. Return what it has forwarded."""
        row = pa.RecordBatch.from_pydict({"timestamp": timestamps([now])})
        return self._punctuated(PunctuationType.WALL_CLOCK_TIME, now, row)

    def _punctuated(self, kind: PunctuationType, now: int, row: Any) -> Any:
        first = min(self._context.punctuators(kind), key=lambda one: one.next_ms)
        first.next_ms += ((now - first.next_ms) // first.interval_ms + 1) * first.interval_ms
        self._context.begin(now, by_clock=kind is PunctuationType.WALL_CLOCK_TIME)
        self._context.scheduled = True
        self._take_at(row, 0)
        origin: list[Any] = [row[name][0].as_py() if name in row.schema.names else None for name in ORIGIN]
        calling(first.call, self.name, Record(None, None, now, *origin), now)
        self._context.scheduled = False
        return self._forwarded(row, [0] * len(self._context.forwarded))

    def close(self) -> None:
        """Close the processor when its task ends."""
        if self._processor is not None:
            self._processor.close()
