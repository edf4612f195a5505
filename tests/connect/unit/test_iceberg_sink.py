"""``IcebergSink`` on a catalog of SQLite and a folder: rows and offsets in one snapshot, and what a late task finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import StringType

from semel.connect import SinkBatch, SinkContext
from semel.connect.connectors.sinks import iceberg
from semel.connect.connectors.sinks.iceberg import IcebergSink, _Table
from semel.connect.connectors.sinks.iceberg_offsets import Entry, SnapshotOffsets
from semel.errors import ConfigError, Fenced, Retriable
from tests.connect.support.iceberg_tables import catalog, config, names, table, task
from tests.connect.support.sink_batches import PARTITION, of
from tests.connect.unit.test_file_sink import rows


def its_table(path: Path, **more: Any) -> _Table:
    return _Table(catalog(path), config(path, **more), PARTITION, "")


def write(one: _Table, first: int = 0) -> None:
    one.open(0)
    made = rows(3, first).tables[0]
    one.write(first, first + 2, made["value"].combine_chunks(), made.schema.field("value"), lambda: None)


def compact(path: Path) -> None:
    """Rewrite the table as another program does, whose snapshots know nothing of offsets."""
    found = table(path)
    found.overwrite(found.scan().to_arrow())


def expire(path: Path) -> None:
    found = table(path)
    for one in found.metadata.snapshots[:-1]:
        found.maintenance.expire_snapshots().by_id(one.snapshot_id).commit()


class Late(_Table):
    """A task that freezes just before its commit, until another one has written."""

    frozen: Path | None = None

    def _commits(self, table: Any, files: Sequence[Any], entry: Entry) -> bool:
        path, self.frozen = self.frozen, None
        if path is not None:
            task(path, flush_size=2).put(rows(4))
        return super()._commits(table, files, entry)


def late(path: Path) -> Late:
    made = Late(catalog(path), config(path), PARTITION, "")
    made.frozen = path
    return made


def test_a_task_that_freezes_before_its_commit_is_fenced(tmp_path: Path) -> None:
    with pytest.raises(Fenced):
        write(late(tmp_path))
    assert names(tmp_path) == of(0, 4)


def test_the_control_doubles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's own transaction commits again on a newer snapshot."""
    monkeypatch.setattr(iceberg, "_transaction", lambda table: table.transaction())
    write(late(tmp_path))
    assert names(tmp_path) == sorted([*of(0, 4), *of(0, 3)])


def test_partitions_do_not_lose_each_others_offsets(tmp_path: Path) -> None:
    first, second = task(tmp_path), task(tmp_path, partition=1)
    first.put(rows(2))
    second.put(SinkBatch(("orders", 1), rows(3).tables, 0, 3))
    first.put(rows(1, 2))  # its table is older than the other's commit
    assert names(tmp_path) == sorted([*of(0, 3), *of(0, 3)])
    for partition in (0, 1):
        context = SinkContext(positions={("orders", partition): 0})
        task(tmp_path, context, partition)
        assert context.offsets == {("orders", partition): 3}


class Meeting(_Table):
    """A task that meets another program's change of the table just before its commit."""

    change: Callable[[], object] | None = None

    def _commits(self, table: Any, files: Sequence[Any], entry: Entry) -> bool:
        change, self.change = self.change, None
        if change is not None:
            change()
        return super()._commits(table, files, entry)


def test_a_column_that_goes_in_the_middle_of_a_commit_takes_no_values_with_it(tmp_path: Path) -> None:
    """The files were written for the columns before. The commit is tried again with what the table is now."""

    def remove() -> None:
        with table(tmp_path).update_schema() as update:
            update.delete_column("name")

    def put_back() -> None:
        with table(tmp_path).update_schema() as update:
            update.add_column("name", StringType())

    write(its_table(tmp_path))
    meeting = Meeting(catalog(tmp_path), config(tmp_path), PARTITION, "")
    meeting.change = remove
    with pytest.raises(OSError, match="hinder"):
        write(meeting, 3)
    with pytest.raises(ConfigError, match="lacks the column name"):
        write(meeting, 3)
    put_back()
    write(meeting, 3)
    assert table(tmp_path).scan().to_arrow()["name"].drop_null().to_pylist() == ["n3", "n4", "n5"]


class Crowded(_Table):
    """A task that meets a commit of another partition each time it is about to commit."""

    met = 0

    def _commits(self, table: Any, files: Sequence[Any], entry: Entry) -> bool:
        if self.met < 2:
            self.met += 1
            start = (self.met - 1) * 3
            other = task(self.path, SinkContext(positions={("orders", 1): start}), 1)
            other.put(SinkBatch(("orders", 1), rows(3, start).tables, start, start + 3))
        return super()._commits(table, files, entry)

    path: Path


def test_a_commit_that_meets_others_is_tried_again_with_its_files(tmp_path: Path) -> None:
    crowded = Crowded(catalog(tmp_path), config(tmp_path), PARTITION, "")
    crowded.path = tmp_path
    write(crowded)
    assert (crowded.met, names(tmp_path)) == (2, sorted([*of(0, 3), *of(0, 6)]))
    assert len(list((tmp_path / "tables").rglob("*.parquet"))) == 3


def test_an_answer_that_was_lost(tmp_path: Path) -> None:
    one = its_table(tmp_path)
    write(one)
    one._at = None  # as if it had not heard
    made = rows(3).tables[0]
    one.write(0, 2, made["value"].combine_chunks(), made.schema.field("value"), lambda: None)
    assert names(tmp_path) == of(0, 3)


def test_compactions_and_expired_snapshots(tmp_path: Path) -> None:
    task(tmp_path, partition=1).put(SinkBatch(("orders", 1), rows(3, 7).tables, 7, 10))
    task(tmp_path).put(rows(3))
    expire(tmp_path)  # the newest snapshot has the offsets of both
    compact(tmp_path)
    context = SinkContext(positions={PARTITION: 0})
    task(tmp_path, context).put(rows(3, 3))
    assert context.offsets == {PARTITION: 3}
    context = SinkContext(positions={("orders", 1): 0})
    task(tmp_path, context, 1)
    assert context.offsets == {("orders", 1): 10}
    assert names(tmp_path) == sorted([*of(0, 6), *of(7, 10)])


def test_offsets_that_are_lost_are_not_guessed(tmp_path: Path) -> None:
    first = task(tmp_path)
    first.put(rows(3))
    task(tmp_path, partition=1).put(SinkBatch(("orders", 1), rows(3).tables, 0, 3))
    compact(tmp_path)
    expire(tmp_path)
    with pytest.raises(ConfigError, match="does not have the newest offset of orders-0, 3: it has expired") as lost:
        task(tmp_path)
    assert lost.value.tag == "SINK_OFFSETS_LOST"
    with pytest.raises(ConfigError, match="orders-0"):
        first.put(rows(3, 3))
    assert IcebergSink().alter_offsets(config(tmp_path), {PARTITION: 3})
    with pytest.raises(ConfigError, match="orders-1"):
        task(tmp_path, partition=1)
    task(tmp_path, SinkContext(positions={PARTITION: 3})).put(rows(3, 3))
    assert names(tmp_path) == sorted([*of(0, 3), *of(0, 6)])


def test_a_table_that_is_rolled_back(tmp_path: Path) -> None:
    made = task(tmp_path)
    made.put(rows(3))
    at = table(tmp_path).current_snapshot()
    assert at is not None
    made.put(rows(3, 3))
    table(tmp_path).manage_snapshots().rollback_to_snapshot(at.snapshot_id).commit()
    with pytest.raises(ConfigError, match="the newest offset of orders-0, 6"):
        made.put(rows(3, 6))
    with pytest.raises(ConfigError, match="or the table was rolled back"):
        task(tmp_path)
    assert IcebergSink().alter_offsets(config(tmp_path), {PARTITION: 3})
    task(tmp_path, SinkContext(positions={PARTITION: 3})).put(rows(3, 3))
    assert names(tmp_path) == of(0, 6)


def test_a_warehouse_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    made = task(tmp_path)
    made.put(rows(3))
    folder = tmp_path / "tables/shop/orders"
    away = folder.rename(tmp_path / "away")
    folder.write_text("in the way")
    with pytest.raises(Retriable):
        made.put(rows(3, 3))
    folder.unlink()
    away.rename(folder)
    made.put(rows(3, 3))
    assert names(tmp_path) == of(0, 6)


def test_offsets_of_several_connectors_are_carried_on(tmp_path: Path) -> None:
    write(its_table(tmp_path))
    other = _Table(catalog(tmp_path), config(tmp_path, name="its/orders"), PARTITION, "")
    write(other)
    metadata = table(tmp_path).metadata
    assert SnapshotOffsets("its", "orders").of(metadata, 0) == Entry(3, "")
    assert SnapshotOffsets("its/orders", "orders").of(metadata, 0) == Entry(3, "")
    assert SnapshotOffsets("another", "orders").of(metadata, 0) is None
