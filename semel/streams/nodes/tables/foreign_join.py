"""The nodes of a foreign-key join: a table's rows subscribe to keys of another table, which answers.

Each side keeps to its own partitions. What they tell each other goes through two repartition topics, in the
transaction. A response that comes after its subscriber's value has changed is dropped: its hash is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from semel.serdes.serde import Serde, decode, encode
from semel.streams.dropped import DroppedRecords
from semel.streams.nodes.stateless import TARGET
from semel.streams.nodes.tables.join import TableJoiner
from semel.streams.nodes.tables.old_values import OLD, with_value, without_old
from semel.streams.nodes.tables.subscriptions import Instruction, Response, Subscription, prefix, value_hash
from semel.streams.nodes.tables.view import View
from semel.streams.rows import CARRIED, Record, calling, place, records, returned, times, timestamps
from semel.streams.state.state_store import StateStore, StoreSpec

__all__ = ["Answers", "ForeignKeyExtractor", "ForeignUpdates", "Receive", "Resolve", "Subscribe"]

#: A function of a record of the left table that returns a key of the other one.
ForeignKeyExtractor = Callable[[Record], Any]
_WORD = 8


@dataclass(frozen=True)
class Subscribe:
    """Makes subscriptions of the left table's updates, in the tasks of one ``partition``."""

    name: str
    extractor: ForeignKeyExtractor
    given: tuple[Serde, Serde]
    foreign_key: Serde
    dropped: DroppedRecords
    left: bool
    partition: int = 0

    def __call__(self, rows: Any, _: Mapping[str, StateStore]) -> Any:
        """Return subscriptions under their foreign keys."""
        now, before = self._foreign_keys(without_old(rows)), self._foreign_keys(with_value(rows, rows[OLD]))
        values = encode(rows["value"], self.given[1]).to_pylist()
        had = rows[OLD].is_valid().to_pylist()
        mine = encode(rows["key"], self.given[0]).to_pylist()
        made: list[tuple[bytes | None, bytes, int]] = []
        for at, (key, value, new, old) in enumerate(zip(mine, values, now, before, strict=True)):
            if value is None and not had[at]:
                continue
            own = value_hash(value)
            for foreign, instruction in self._instructions(value is not None, new, old):
                made.append((foreign, Subscription(own, instruction, key, self.partition).encode(), at))
        taken = rows.take(pa.array([at for *_, at in made], pa.int64()))
        columns = {name: taken[name] for name in ("timestamp", *CARRIED) if name in taken.schema.names}
        keys, wrapped = ([one[column] for one in made] for column in (0, 1))
        return pa.RecordBatch.from_pydict(
            {"key": pa.array(keys, pa.binary()), "value": pa.array(wrapped, pa.binary()), **columns}
        )

    def _foreign_keys(self, rows: Any) -> list[bytes | None]:
        chosen = [
            None if one.value is None else calling(self.extractor, self.name, one, one)
            for one in records(rows, *self.given)
        ]
        found: list[bytes | None] = encode(
            returned(chosen, self.foreign_key, self.name, partial(place, rows)), self.foreign_key
        ).to_pylist()
        return found

    def _instructions(
        self, there: bool, new: bytes | None, old: bytes | None
    ) -> Iterator[tuple[bytes | None, Instruction]]:
        """Yield what is sent where, as Kafka Streams does."""
        if self.left:
            if old is not None and old != new:
                yield old, Instruction.DELETE
            yield new, Instruction.ANSWER_ALWAYS
            return
        if there and new is None:
            self.dropped.count(self.name, 1, "rows without a foreign key")
        if new is None:
            if old is not None:
                yield old, Instruction.DELETE_AND_ANSWER
        elif old is not None and old != new:
            yield old, Instruction.DELETE
            yield new, Instruction.ANSWER_ALWAYS
        else:
            yield new, Instruction.ANSWER_IF_THERE


@dataclass(frozen=True)
class Receive:
    """Keeps subscriptions, by foreign key and subscriber."""

    name: str
    spec: StoreSpec
    dropped: DroppedRecords

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """Return the subscriptions. Of those without a foreign key only the ones that are answered always stay."""
        store, kept = stores[self.spec.name], []
        time = times(rows)
        for at, (foreign, data) in enumerate(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True)):
            one = Subscription.parse(data)
            kept.append(foreign is not None or one.instruction is Instruction.ANSWER_ALWAYS)
            if foreign is None:
                continue
            name, now = prefix(foreign) + one.key, int(time[at])
            if one.instruction in (Instruction.DELETE, Instruction.DELETE_AND_ANSWER):
                store.delete(name, now)
            else:
                store.put([name], [now.to_bytes(_WORD, "big") + data])
        self.dropped.count(self.name, kept.count(False), "subscriptions without a foreign key")
        return rows.filter(pa.array(kept, pa.bool_()))


@dataclass(frozen=True)
class Answers:
    """Answers subscriptions with what the other table has for their foreign keys."""

    view: View
    value: Serde

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """Return responses under the subscribers' keys."""
        keys = rows["key"].dictionary_encode()
        partners = self.view.look_up(keys.dictionary.to_pylist(), stores)
        values = encode(partners["value"], self.value).take(keys.indices).to_pylist()
        there = timestamps(times(partners)).cast(pa.int64()).take(keys.indices).fill_null(-1).to_pylist()
        made: list[tuple[int, Subscription, bytes | None, int]] = []
        for at, data in enumerate(rows["value"].to_pylist()):
            one, value = Subscription.parse(data), values[at]
            if one.instruction is Instruction.DELETE_AND_ANSWER:
                made.append((at, one, None, there[at]))
            elif one.instruction is Instruction.ANSWER_ALWAYS or (
                one.instruction is Instruction.ANSWER_IF_THERE and value is not None
            ):
                made.append((at, one, value, there[at] if value is not None else -1))
        return _responses(rows, made)


@dataclass(frozen=True)
class ForeignUpdates:
    """Answers all subscribers of a key of the other table that has changed."""

    spec: StoreSpec
    key: Serde
    value: Serde

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """Return responses under the subscribers' keys."""
        rows = without_old(rows)
        store, made = stores[self.spec.name], []
        values = encode(rows["value"], self.value).to_pylist()
        for at, (key, value) in enumerate(zip(encode(rows["key"], self.key).to_pylist(), values, strict=True)):
            if key is None:
                continue
            begin = prefix(key)
            for _, entry in store.scan(begin, _after(begin)):
                made.append((at, Subscription.parse(entry[_WORD:]), value, -1))
        return _responses(rows, made)


@dataclass(frozen=True)
class Resolve:
    """Joins responses with the left table's values of now."""

    name: str
    view: View
    joiner: TableJoiner
    #: The serdes of keys, of the left table's values, of the other's, and of results.
    serdes: tuple[Serde, Serde, Serde, Serde]
    dropped: DroppedRecords
    left: bool

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """Return the results. Responses to an earlier value are dropped and counted."""
        key, mine, theirs, made = self.serdes
        keys = encode(rows["key"], key).dictionary_encode()
        values = self.view.look_up(keys.dictionary.to_pylist(), stores)["value"]
        hashes = [value_hash(one) for one in encode(values, mine).to_pylist()]
        answers = [Response.parse(data) for data in rows["value"].to_pylist()]
        current = np.array(
            [one.hash == hashes[at] for one, at in zip(answers, keys.indices.to_pylist(), strict=True)], bool
        )
        self.dropped.count(self.name, int((~current).sum()), "responses to an earlier value")
        rows = rows.filter(pa.array(current))
        foreign = [one.value for one, kept in zip(answers, current.tolist(), strict=True) if kept]
        own = records(with_value(rows, values.take(keys.indices.filter(pa.array(current)))), key, mine)
        other = records(with_value(rows, decode(pa.array(foreign, pa.binary()), theirs)), key, theirs)
        results = []
        for record, partner in zip(own, other, strict=True):
            wanted = partner.value is not None or (self.left and record.value is not None)
            joined = partial(self.joiner, record.value, partner.value)
            results.append(calling(joined, self.name, record) if wanted else None)
        return with_value(rows, returned(results, made, self.name, partial(place, rows)))


def _responses(rows: Any, made: list[tuple[int, Subscription, bytes | None, int]]) -> Any:
    """Return responses, which go to the partitions of their subscribers. Each is made at a row, and has the time of a
    partner or -1.
    """
    taken = rows.take(pa.array([at for at, *_ in made], pa.int64()))
    columns = {name: taken[name] for name in CARRIED if name in taken.schema.names}
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([one.key for _, one, *_ in made], pa.binary()),
            "value": pa.array([Response(one.hash, value).encode() for _, one, value, _ in made], pa.binary()),
            "timestamp": timestamps(np.maximum(times(taken), np.array([time for *_, time in made], np.int64))),
            **columns,
            TARGET: pa.array([one.partition for _, one, *_ in made], pa.int32()),
        }
    )


def _after(begin: bytes) -> bytes | None:
    """Return what is greater than all that begins so."""
    end = begin.rstrip(b"\xff")
    return end[:-1] + bytes([end[-1] + 1]) if end else None
