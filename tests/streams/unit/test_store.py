"""Stores in memory and on RocksDB: changes are seen by their transaction at once, by others once they are applied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from semel.errors import ConfigError, Retriable
from semel.streams.clock import now_ms
from semel.streams.rows import timestamps
from semel.streams.state.backend import Backend, DamagedStore, Memory, Position
from semel.streams.state.changelog import Restore
from semel.streams.state.rocks import Rocks
from semel.streams.state.state_store import StateStore, StoreSpec

DAY = 86_400_000
Open = Callable[[], Backend]


@pytest.fixture(params=["memory", "rocks"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return Memory() if request.param == "memory" else Rocks(tmp_path / "store")


def entry(time: int, value: bytes) -> bytes:
    return time.to_bytes(8, "big") + value


def test_changes_are_beside_what_is_committed(backend: Backend) -> None:
    store = StateStore(StoreSpec("s"), backend)
    store.put([b"a", b"b"], [entry(1, b"x"), entry(2, b"y")])
    assert store.get([b"a", b"c", b"b"]) == [entry(1, b"x"), None, entry(2, b"y")]
    assert backend.get([b"a"]) == [None]
    store.apply("id", 7)
    assert backend.get([b"a"]) == [entry(1, b"x")]
    assert store.position is not None
    assert (store.position.topic_id, store.position.offset) == ("id", 7)
    store.delete(b"a", 3)
    store.put([b"b"], [entry(4, b"z")])
    assert store.get([b"a", b"b"]) == [None, entry(4, b"z")]
    assert store.changes().drop_columns(["timestamp"]).to_pylist() == [
        {"key": b"b", "value": b"z"},
        {"key": b"a", "value": None},
    ]
    store.forget()
    assert store.get([b"a", b"b"]) == [entry(1, b"x"), entry(2, b"y")]
    assert store.changed == 0


def test_a_restore_that_is_interrupted_makes_a_store_no_younger(backend: Backend) -> None:
    """How long it was away says whether deletions may be compacted away that it does not know of."""
    backend.write([(b"a", entry(1, b"x"))], [], Position("id", 3, 1, 1_000))
    store = StateStore(StoreSpec("s"), backend)
    rows = pa.record_batch({"key": [b"b"], "value": [b"y"], "timestamp": timestamps([5])})
    store.restore(rows, "id", 4)
    there = backend.position()
    assert there is not None
    assert (there.offset, there.written_ms) == (4, 1_000)
    store.apply("id", 9)
    there = backend.position()
    assert there is not None
    assert there.written_ms > 1_000


def test_a_restore_that_was_frozen_for_a_day_is_not_believed(backend: Backend) -> None:
    """Deletions may have been compacted away meanwhile. A store is as old as when it was last seen to be at the end."""
    store, planned = StateStore(StoreSpec("s"), backend), now_ms()
    one = Restore(("changelog", 0), store, "AAAAAAAAAAAAAAAAAAAAAA", 0, 9, fresh_ms=planned - DAY // 2)
    one.check_fresh()
    one.reach(9)
    assert store.position is not None
    assert store.position.written_ms == planned - DAY // 2
    one.fresh_ms = planned - DAY
    with pytest.raises(Retriable, match="changelog-0 was not read for 24 hours"):
        one.check_fresh()


def test_what_is_restored_is_what_was_written(backend: Backend) -> None:
    store = StateStore(StoreSpec("s", DAY), backend)
    begin = (DAY * 3).to_bytes(8, "big")
    store.put([begin + b"a", begin + b"b"], [entry(DAY * 3 + 5, b"1"), entry(DAY * 3 + 9, b"2")])
    store.saw(DAY * 3 + 9)
    changes = store.changes()
    other = StateStore(StoreSpec("s", DAY), Memory())
    (batch,) = changes.combine_chunks().to_batches()
    other.restore(batch, "id", 2)
    store.apply("id", 2)
    assert (
        list(other.entries())
        == list(store.entries())
        == [
            (b"a", DAY * 3, DAY * 3 + 5, b"1"),
            (b"b", DAY * 3, DAY * 3 + 9, b"2"),
        ]
    )
    assert other.stream_time == DAY * 3 + 9
    gone = {"key": batch["key"][:1], "value": pa.nulls(1, pa.binary()), "timestamp": timestamps([1])}
    other.restore(pa.RecordBatch.from_pydict(gone), "id", 3)
    assert [key for key, *_ in other.entries()] == [b"b"]


def test_old_windows_are_deleted_in_store_and_changelog(backend: Backend) -> None:
    store = StateStore(StoreSpec("s", DAY), backend)

    def window(begin: int) -> bytes:
        store.saw(begin + 1)
        store.put([begin.to_bytes(8, "big") + b"a"], [entry(begin + 1, b"1")])
        return b"a" + begin.to_bytes(8, "big") + bytes(4)

    first = window(1000)
    window(2000)
    store.changes()
    store.apply("id", 1)
    third = window(DAY + 1500)
    changes = dict(zip(*(store.changes()[name].to_pylist() for name in ("key", "value")), strict=True))
    assert changes == {third: b"1", first: None}
    store.forget()
    third = window(DAY + 1500)
    assert store.changes().num_rows == 2
    store.apply("id", 3)
    assert [begin for _, begin, _, _ in store.entries()] == [2000, DAY + 1500]


def test_windows_that_are_overtaken_in_their_own_transaction_are_not_kept(backend: Backend) -> None:
    """Neither in the store nor in the changelog: 20 days of hourly windows, in one transaction, on a day before."""
    hour = 3_600_000
    store = StateStore(StoreSpec("s", DAY), backend)

    def fill(first: int, end: int) -> None:
        for begin in range(first * hour, end * hour, hour):
            store.saw(begin + 1)
            store.put([begin.to_bytes(8, "big") + b"a"], [entry(begin + 1, b"1")])

    fill(0, 3)
    store.changes()
    store.apply("id", 3)
    fill(1, 480)
    changes = store.changes()
    assert sorted(int.from_bytes(row["key"][1:9], "big") // hour for row in changes.to_pylist() if row["value"]) == [
        *range(456, 480)
    ]
    assert sum(row["value"] is None for row in changes.to_pylist()) == 3  # those that were committed
    store.apply("id", 30)
    assert [begin // hour for _, begin, _, _ in store.entries() if begin is not None] == [*range(456, 480)]
    assert store.keys(b"", (456 * hour).to_bytes(8, "big")) == []


def test_stream_time_of_an_aborted_transaction_is_forgotten(backend: Backend) -> None:
    store = StateStore(StoreSpec("s"), backend)
    store.saw(5)
    store.apply("id", 1)
    store.saw(9)
    store.forget()
    assert store.stream_time == 5
    assert StateStore(StoreSpec("s"), backend).stream_time == 5


def test_a_folder_that_is_open_or_damaged_is_named(tmp_path: Path) -> None:
    store = Rocks(tmp_path / "store")
    store.write([(b"a", entry(1, b"x"))], [], Position("id", 1, 1, 1))
    with pytest.raises(ConfigError, match=r"state\.dir"):
        Rocks(tmp_path / "store")
    store.close()
    again = Rocks(tmp_path / "store")
    assert list(again.scan()) == [(b"a", entry(1, b"x"))]
    again.clear()
    assert (list(again.scan()), again.position()) == ([], None)
    again.close()
    (tmp_path / "store" / "CURRENT").write_bytes(b"nonsense")
    with pytest.raises(DamagedStore):
        Rocks(tmp_path / "store")
