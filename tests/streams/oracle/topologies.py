"""Topologies as lists of steps: the Python side. ``Answers.java`` builds the same of Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from semel.streams import App, Context, EmitStrategy, Processor, PunctuationType, Record, Suppressed, stores, windows
from semel.streams.dsl.cogrouped import CogroupedStream
from semel.streams.dsl.grouped import GroupedStream
from semel.streams.dsl.stream import Stream
from semel.streams.dsl.table import Table

__all__ = ["Step", "add", "build"]

Step = Mapping[str, Any]


def build(steps: Sequence[Step], properties: Mapping[str, object] | None = None) -> App:
    """Return the application of these steps."""
    app = App("app", **(properties or {}))
    add(app, steps)
    return app


def add(app: App, steps: Sequence[Step], prefix: str = "") -> None:
    """Build these steps in an application. Its topics and stores have names that begin with ``prefix``."""
    steps = [{**step, **{key: prefix + step[key] for key in ("name", "topic") if key in step}} for step in steps]
    made: dict[int, Any] = {}
    builders: dict[str, stores.StoreBuilder] = {}
    for step in steps:
        kind = step["op"]
        if kind == "stream":
            made[step["id"]] = app.stream(
                step.get("topics") or step["name"], key="string", value="json", timestamp_extractor=_extractor(step)
            )
        elif kind == "table":
            made[step["id"]] = app.table(
                step["topic"], key="string", value="json", name=step["name"], timestamp_extractor=_extractor(step)
            )
        elif kind == "global_table":
            made[step["id"]] = app.global_table(step["topic"], key="string", value="json", name=step["name"])
        elif kind == "versioned":
            made[step["id"]] = app.table(
                step["topic"], key="string", value="json", name=step["name"], history_retention=step["n"]
            )
        elif kind == "versioned_store":
            builders[step["name"]] = stores.versioned(step["name"], history_retention=step["n"])
        elif kind == "store":
            builders[step["name"]] = stores.key_value(step["name"])
        elif kind == "branch":
            made.update(zip(step["ids"], made[step["of"]].branch(*_conditions(step)), strict=True))
        elif kind == "to":
            name = step["name"]
            made[step["of"]].to(_chooser(name, step["n"]) if "n" in step else name)
        else:
            made[step["id"]] = _made(step, made, builders)


def _made(step: Step, made: Mapping[int, Any], builders: Mapping[str, stores.StoreBuilder]) -> Stream | Table:
    stream, kind, n, name = made[step["of"]], step["op"], step.get("n", 0), step.get("name", "")
    if kind == "fold":
        return _fold(step, stream)
    if kind == "process":
        processed: Stream = stream.process(lambda: Own(step["kind"], name, n), stores=[builders[name]])
        return processed
    makers: dict[str, Callable[[], Any]] = {
        "versions": lambda: stream.process(lambda: Versioned(name, n), stores=[builders[name]]),
        "filter": lambda: stream.filter(_fitting(n, step["is"])),
        "filter_not": lambda: stream.filter_not(_fitting(n, step["is"])),
        "map_values": lambda: stream.map_values(_plus_or_null(n, step["is"])),
        "map": lambda: stream.map(lambda record: (_chosen(record.value, n), _plus(record.value, 1))),
        "picky": lambda: stream.map_values(lambda record: _picky(record.value, n, step["is"])),
        "picky_filter": lambda: stream.filter(lambda record: _picky(record.value, n, step["is"]) is not None),
        "picky_map": lambda: stream.map(lambda record: (_chosen(_picky(record.value, n, step["is"]), 3), record.value)),
        "picky_fold": lambda: stream.group_by_key().aggregate(
            lambda: 100, lambda _, value, total: total + _picky(value, n, step["is"]), name=name
        ),
        "picky_windows": lambda: (
            stream.group_by_key()
            .windowed(windows.tumbling(10))
            .reduce(lambda total, value: total + (_picky(value, n, step["is"]) or 0), name)
        ),
        "flat_map": lambda: stream.flat_map(lambda record: _copies(record.value, n)),
        "flat_map_values": lambda: stream.flat_map_values(lambda record: [one for _, one in _copies(record.value, n)]),
        "process_values": lambda: stream.process_values(lambda: Tally(name), stores=[builders[name]]),
        "peek": lambda: stream.peek(lambda record: None),
        "select_key": lambda: stream.select_key(lambda record: _chosen(record.value, n)),
        "cogroup": lambda: _together(step, [made[one] for one in step["many"]]),
        "meet": lambda: _met(step, stream, made[step["with"]]),
        "merge": lambda: stream.merge(made[step["with"]]),
        "repartition": lambda: stream.repartition(name),
        "named": lambda: _named(step, stream),
        "suppress": lambda: made[step["of"]].suppress(
            Suppressed.until_time_limit(n, max_records=step.get("most")) if n else Suppressed.until_window_closes()
        ),
        "to_table": lambda: stream.to_table(name),
        "table_map": lambda: made[step["of"]].map_values(_plus_or_null(n, step["is"])),
        "table_filter": lambda: made[step["of"]].filter(_fitting(n, step["is"])),
        "table_filter_not": lambda: made[step["of"]].filter_not(_fitting(n, step["is"])),
        "table_fold": lambda: _table_fold(step, made[step["of"]]),
        "table_join": lambda: _tables_joined(step, made[step["of"]], made[step["with"]]),
        "foreign_join": lambda: _joined_by_value(step, made[step["of"]], made[step["with"]]),
        "to_stream": lambda: stream.to_stream(),
        "global_join": lambda: stream.join(made[step["table"]], _joined, key_selector=_selector(step)),
        "global_left_join": lambda: stream.left_join(made[step["table"]], _joined, key_selector=_selector(step)),
        "join": lambda: stream.join(made[step["table"]], _joined),
        "left_join": lambda: stream.left_join(made[step["table"]], _joined),
    }
    result: Stream | Table = makers[kind]()
    return result


def _selector(step: Step) -> Callable[[Record], str | None]:
    return lambda record: _chosen(record.value, step["n"]) if "n" in step else record.key


def _extractor(step: Step) -> Any:
    return _by_value if "extractor" in step else None


def _by_value(record: Record, partition_time: int) -> int:
    if record.value is None:
        return partition_time
    return -1 if record.value % 7 == 0 else record.timestamp // 2 + int(record.value)


def _named(step: Step, stream: Stream) -> Table:
    n, name = step["n"], step["name"]
    chosen = stream.select_key(lambda record: _chosen(record.value, n), named=f"{name}-key")
    kept = chosen.filter(lambda record: True, named=f"{name}-filter")
    return kept.group_by_key(name if step["is"] else None).count(named=f"{name}-count")


def _picky(value: int | None, n: int, remainder: int) -> Any:
    """Return a value. Fail at some."""
    if _fits(value, n, remainder):
        raise ArithmeticError(f"{value} is refused")
    return value


def _chooser(name: str, n: int) -> Callable[[Record], str]:
    return lambda record: f"{name}-{len(record.key or '') % n}"


def _met(step: Step, left: Stream, right: Stream) -> Stream:
    before, after, grace = step["windows"]
    word = {"join": left.join, "left_join": left.left_join, "outer_join": left.outer_join}[step["kind"]]
    window = windows.join(0, before=before, after=after, grace=grace)
    return word(right, _mixed, window, name=step.get("name"))


def _mixed(left: int | None, right: int | None) -> int:
    return ((-1 if left is None else left) * 1000 + (-1 if right is None else right)) % 1_000_003


def _tables_joined(step: Step, left: Table, right: Table) -> Table:
    word = {"join": left.join, "left_join": left.left_join, "outer_join": left.outer_join}[step["kind"]]
    return word(right, _mixed_or_null)


def _joined_by_value(step: Step, left: Table, right: Table) -> Table:
    word = {"join": left.join, "left_join": left.left_join}[step["kind"]]
    n = step["n"]
    return word(
        right,
        _mixed_or_null,
        foreign_key_extractor=lambda record: _chosen_or_null(record.value, n),
        name=step.get("name"),
    )


def _mixed_or_null(left: int | None, right: int | None) -> int | None:
    mixed = _mixed(left, right)
    return None if mixed % 7 == 0 else mixed


def _table_fold(step: Step, table: Table) -> Table:
    n, name = step["n"], step["name"]
    groups = table.group_by(lambda record: (_chosen_or_null(record.value, n), record.value + 1))
    if step["kind"] == "count":
        return groups.count(name)
    if step["kind"] == "reduce":
        return groups.reduce(_added, _taken, name)
    return groups.aggregate(
        lambda: 100,
        lambda _, value, total: _added(total, value),
        lambda _, value, total: _taken(total, value),
        name=name,
    )


def _chosen_or_null(value: int, n: int) -> str | None:
    return None if value % 11 == 0 else _chosen(value, n)


def _taken(total: int, value: int) -> int | None:
    """Return a difference; a multiple of 4 deletes it."""
    return None if value % 4 == 0 else total - value


def _together(step: Step, streams: Sequence[Stream]) -> Table:
    name, groups = step["name"], CogroupedStream()
    for number, stream in enumerate(streams):
        groups = groups.cogroup(stream.group_by_key(f"{name}-{number}"), _plus_and_added(number))
    kind = _windows(step)
    if kind is not None:
        groups = groups.windowed(kind)
    return groups.aggregate(lambda: 100, merger=_merged, name=name)


def _plus_and_added(number: int) -> Callable[[str, int | None, int | None], int | None]:
    return lambda _, value, total: _added(total, _plus(value, number))


def _windows(step: Step) -> windows.WindowKind | None:
    if "windows" in step:
        size, advance, grace = step["windows"]
        return windows.hopping(size, advance, grace=grace)
    if "session" in step:
        return windows.session(step["session"][0], grace=step["session"][1])
    if "sliding" in step:
        return windows.sliding(step["sliding"][0], grace=step["sliding"][1])
    return None


def _fold(step: Step, stream: Stream) -> Table:
    by, store = step.get("by", 0), step["name"]
    groups = stream.group_by(lambda record: _chosen(record.value, by)) if by else stream.group_by_key()
    kind = _windows(step)
    if kind is not None:
        groups = groups.windowed(kind).emit_strategy(
            EmitStrategy.ON_WINDOW_CLOSE if step.get("close") else EmitStrategy.ON_WINDOW_UPDATE
        )
    return {"count": _counted, "reduce": _reduced, "aggregate": _aggregated}[step["kind"]](groups, store)


def _counted(groups: GroupedStream, store: str) -> Table:
    return groups.count(store)


def _reduced(groups: GroupedStream, store: str) -> Table:
    return groups.reduce(_added, store)


def _aggregated(groups: GroupedStream, store: str) -> Table:
    return groups.aggregate(lambda: 100, lambda _, value, total: _added(total, value), merger=_merged, name=store)


def _fits(value: int | None, n: int, remainder: int) -> bool:
    return value is not None and value % n == remainder


def _fitting(n: int, remainder: int) -> Callable[[Record], bool]:
    return lambda record: _fits(record.value, n, remainder)


def _conditions(step: Step) -> list[Callable[[Record], bool]]:
    return [_fitting(step["n"], at) for at in range(len(step["ids"]))]


def _plus_or_null(n: int, remainder: int) -> Callable[[Record], int | None]:
    return lambda record: None if _fits(record.value, n, remainder) else _plus(record.value, n)


def _plus(value: int | None, n: int) -> int | None:
    return None if value is None else value + n


def _chosen(value: int | None, n: int) -> str | None:
    return None if value is None else f"k{value % n}"


def _copies(value: int | None, n: int) -> list[tuple[str, int]]:
    return [] if value is None else [(f"k{at}", value + at) for at in range(value % n)]


def _merged(_: object, one: int | None, other: int | None) -> int:
    return (one or 0) + (other or 0)


def _added(total: int | None, value: int | None) -> int | None:
    """Return a sum; a multiple of 5 deletes it. Windows get values of null, too."""
    total = total or 0
    if value is None:
        return total + 7
    return None if value % 5 == 0 else total + value


def _joined(value: int, partner: int | None) -> int:
    return value * 1000 + (-1 if partner is None else partner)


class Tally(Processor):
    """Sums the values of a key, and forwards each sum twice."""

    def __init__(self, name: str) -> None:
        self._name = name

    def process(self, record: Record) -> None:
        """Do as the processor of the same name in ``Answers.java``."""
        store, key = self.context.store(self._name), record.key or "none"
        total = (store.get(key) or 0) + (1 if record.value is None else record.value)
        store.put(key, total)
        self.context.forward_value(total)
        self.context.forward_value(total + 1)


class Versioned(Processor):
    """Puts each record as a version of its key, and forwards what is found then."""

    def __init__(self, name: str, before: int) -> None:
        self._name, self._before = name, before

    def process(self, record: Record) -> None:
        """Do as the processor of the same name in ``Answers.java``."""
        store, key = self.context.store(self._name), record.key or "none"
        put = store.put(key, record.value, record.timestamp)
        self.context.forward(record.key, -2 if put == stores.NOT_PUT else put)
        for found in (store.get(key), store.get(key, record.timestamp - self._before)):
            self.context.forward(record.key, _shown(found))
        if record.value is not None and record.value % 5 == 0:
            self.context.forward(record.key, _shown(store.delete(key, record.timestamp + 1)))


def _shown(found: stores.VersionedRecord | None) -> int:
    return -3 if found is None else int(found.value) * 1_000 + found.timestamp


class Own(Processor):
    """A processor with one store."""

    def __init__(self, kind: str, name: str, every: int) -> None:
        self._kind, self._name, self._every = kind, name, every
        self._scheduled = False

    def init(self, context: Context) -> None:
        super().init(context)
        self._store = context.store(self._name)
        if self._kind == "tick":
            context.schedule(self._every, self._tick)
        if self._kind == "clock":
            self._calls = 0
            self._clock = context.schedule(self._every, self._called, PunctuationType.WALL_CLOCK_TIME)

    def _called(self, now: int) -> None:
        """Cancel after three calls."""
        self._calls += 1
        before = self._store.get("n") or 0
        self.context.forward("clock", now * 1000 + before, timestamp=now)
        self._store.put("n", before + 1)
        if self._calls == 3:
            self._clock.cancel()

    def _tick(self, now: int) -> None:
        self.context.forward("tick", now * 1000 + (self._store.get("n") or 0))

    def process(self, record: Record) -> None:
        """Do as the processor of the same kind in ``Answers.java``; "late" schedules in here, and is not there."""
        key, value = record.key, 1 if record.value is None else record.value
        if self._kind == "late" and key == "k1" and not self._scheduled:
            self._scheduled = True
            self.context.schedule(self._every, self._tick)
        if key is None:
            self.context.forward(key, value)
            return
        before = self._store.get(key) or 0
        if self._kind == "tally":
            self.context.forward(key, before)
            self._store.put(key, before + value)
            self.context.forward(key, before + value)
        elif self._kind == "look":
            self.context.forward(key, before)
        elif self._kind == "delete":
            self.context.forward(key, self._store.delete(key))
        elif self._kind == "first":
            if self._store.get(key) is None:
                self._store.put(key, value)
                self.context.forward(key, record.value)
        else:
            self._store.put("n", (self._store.get("n") or 0) + 1)
