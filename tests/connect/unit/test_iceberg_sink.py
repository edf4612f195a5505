"""``IcebergSink`` on a catalog of SQLite and a folder: rows and offsets in one snapshot, and what a late task finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from semel.connect import Setting, SinkBatch, SinkContext
from semel.connect.connectors.sinks import iceberg
from semel.connect.connectors.sinks.iceberg import IcebergSink, IcebergSinkTask, _Table
from semel.connect.connectors.sinks.iceberg_offsets import Entry, SnapshotOffsets
from semel.errors import ConfigError, Fenced, Retriable
from tests.connect.support.sink_batches import PARTITION, VALUE, batch
from tests.connect.unit.test_file_sink import rows

NAME = "shop.orders"


def settings(path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{path}/catalog.db", "warehouse": str(path / "tables")}


def config(path: Path, **more: Any) -> Mapping[str, Any]:
    defaults = {name: one.default for name, one in IcebergSink.config.items() if isinstance(one, Setting)}
    given = {
        "name": "its",
        "iceberg.tables": ["shop.${topic}"],
        "iceberg.catalog.*": settings(path),
        "iceberg.tables.auto-create-props.*": {},
        "iceberg.tables.auto-create-enabled": True,
        "flush.size": 3,
    }
    return {**defaults, **given, **{name.replace("_", "."): value for name, value in more.items()}}


def task(path: Path, context: SinkContext | None = None, partition: int = 0, **more: Any) -> IcebergSinkTask:
    made = IcebergSinkTask()
    made.start(config(path, **more), context or SinkContext())
    made.open([("orders", partition)])
    return made


def its_table(path: Path, **more: Any) -> _Table:
    return _Table(catalog(path), config(path, **more), PARTITION, "")


def catalog(path: Path) -> Catalog:
    return load_catalog("iceberg", **settings(path))


def table(path: Path) -> Table:
    return catalog(path).load_table(NAME)


def names(path: Path) -> list[str]:
    """Read the table's files by a library that did not write them."""
    files = [one.file.file_path for one in table(path).scan().plan_files()]
    return sorted(name for (name,) in duckdb.execute("SELECT name FROM read_parquet(?)", [files]).fetchall())


def of(first: int, last: int) -> list[str]:
    return sorted(f"n{n}" for n in range(first, last))


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


def test_a_task_resumes_where_the_table_says(tmp_path: Path) -> None:
    task(tmp_path).put(rows(4))
    context = SinkContext(positions={PARTITION: 0})
    later = task(tmp_path, context)
    assert context.offsets == {PARTITION: 3}
    later.put(rows(4, 3))
    later.put(rows(4, 3))  # a batch that comes again
    assert names(tmp_path) == of(0, 6)
    assert later.pre_commit({PARTITION: 7}) == {PARTITION: 6}


def test_a_task_that_is_late_is_fenced(tmp_path: Path) -> None:
    late, other = task(tmp_path), task(tmp_path, flush_size=2)
    late.put(rows(2))
    other.put(rows(4))
    with pytest.raises(Fenced, match="another task has committed rows of orders-0"):
        late.put(rows(1, 2))
    assert names(tmp_path) == of(0, 4)


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


def test_types(tmp_path: Path) -> None:
    kind = pa.struct(
        [
            pa.field("small", pa.int8(), nullable=False),
            pa.field("price", pa.decimal128(38, 2)),
            pa.field("at", pa.timestamp("ms")),
            pa.field("hour", pa.time32("ms")),
            pa.field("day", pa.date32()),
            pa.field("tags", pa.list_(pa.field("item", pa.string()))),
            pa.field("stock", pa.map_(pa.string(), pa.int64())),
            pa.field("inner", pa.struct([pa.field("at", pa.timestamp("ms"))])),
            pa.field("blob", pa.binary()),
            pa.field("flag", pa.bool_()),
            pa.field("ratio", pa.float64()),
        ]
    )
    at = datetime(2026, 1, 1, 0, 0, 0, 5000)
    row = {
        "small": 1,
        "price": Decimal("1.50"),
        "at": at,
        "hour": time(1, 2, 3),
        "day": at.date(),
        "tags": ["a"],
        "stock": [("a", 1)],
        "inner": {"at": at},
        "blob": b"x",
        "flag": True,
        "ratio": 0.5,
    }
    task(tmp_path, flush_size=1).put(batch([({"id": 1}, row)], 0, kind))
    task(tmp_path, flush_size=1).put(batch([({"id": 1}, row)], 1, kind))
    moment = at.replace(tzinfo=UTC)
    assert table(tmp_path).scan().to_arrow().to_pylist() == [{**row, "at": moment, "inner": {"at": moment}}] * 2


def test_columns_that_come_and_go(tmp_path: Path) -> None:
    task(tmp_path, flush_size=1).put(rows(1))
    wider = pa.struct([*VALUE, pa.field("more", pa.int32())])
    second = batch([({"id": 1}, {"name": "n1", "price": None, "more": 7})], 1, wider)
    with pytest.raises(ConfigError, match="lacks the column more"):
        task(tmp_path, flush_size=1).put(second)
    evolves: Any = {"iceberg.tables.evolve-schema-enabled": True}
    task(tmp_path, flush_size=1, **evolves).put(second)
    narrow = batch([({"id": 2}, {"name": "n2"})], 2, pa.struct([pa.field("name", pa.string())]))
    task(tmp_path, flush_size=1).put(narrow)
    found = table(tmp_path).scan().to_arrow().select(["name", "more"]).to_pylist()
    assert sorted(found, key=lambda one: str(one["name"])) == [
        {"name": "n0", "more": None},
        {"name": "n1", "more": 7},
        {"name": "n2", "more": None},
    ]
    other = batch([({"id": 3}, {"name": [5]})], 3, pa.struct([pa.field("name", pa.list_(pa.int64()))]))
    with pytest.raises(ConfigError, match="record at offset 3 of orders-0 was refused: it does not fit the table"):
        task(tmp_path, flush_size=1).put(other)


def test_fields_within_fields_that_come_and_go(tmp_path: Path) -> None:
    def at(offset: int, inner: Any, kind: Any) -> SinkBatch:
        fields = pa.struct([pa.field("inner", kind), pa.field("name", pa.string())])
        return batch([({"id": offset}, {"name": f"n{offset}", "inner": inner})], offset, fields)

    here, more = pa.field("here", pa.int64()), pa.field("more", pa.int64())
    task(tmp_path, flush_size=1).put(at(0, [{"here": 0}], pa.list_(pa.struct([here]))))
    wider = at(1, [{"more": 7, "here": 1}], pa.list_(pa.struct([more, here])))
    with pytest.raises(ConfigError, match=r"lacks the column inner\.more"):
        task(tmp_path, flush_size=1).put(wider)
    evolves: Any = {"iceberg.tables.evolve-schema-enabled": True}
    task(tmp_path, flush_size=1, **evolves).put(wider)
    task(tmp_path, flush_size=1).put(at(2, [{"more": 8}], pa.list_(pa.struct([more]))))
    found = table(tmp_path).scan().to_arrow().sort_by("name").to_pylist()
    assert [one["inner"] for one in found] == [
        [{"here": 0, "more": None}],
        [{"here": 1, "more": 7}],
        [{"here": None, "more": 8}],
    ]


def test_a_table_of_the_user(tmp_path: Path) -> None:
    careful: Any = {"iceberg.tables.auto-create-enabled": False}
    with pytest.raises(ConfigError, match=r"there is no table of Iceberg shop.orders.*auto-create-enabled=true"):
        task(tmp_path, **careful).put(rows(3))
    own = catalog(tmp_path)
    own.create_namespace("shop")
    there = pa.table({"name": ["mine"], "price": pa.array([None], pa.decimal128(38, 2))})
    made = own.create_table(NAME, there.schema)
    with made.update_spec() as spec:
        spec.add_identity("name")
    made.append(there)
    task(tmp_path).put(rows(3))
    assert names(tmp_path) == sorted(["mine", *of(0, 3)])
    assert {one.partition[0] for one in (file.file for file in table(tmp_path).scan().plan_files())} == {
        "mine",
        *of(0, 3),
    }


def test_a_value_that_the_table_refuses(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("name", pa.string(), nullable=False), pa.field("price", pa.decimal128(38, 2))])
    own = catalog(tmp_path)
    own.create_namespace("shop")
    own.create_table(NAME, schema)
    good, null = ({"id": 0}, {"name": "a", "price": None}), ({"id": 0}, {"name": None, "price": None})
    with pytest.raises(ConfigError, match="the record at offset 7 of orders-0 was refused"):
        task(tmp_path).put(batch([good, good, null], 5))
    assert table(tmp_path).current_snapshot() is None


def test_offsets_that_are_changed_by_rest(tmp_path: Path) -> None:
    made = task(tmp_path)
    made.put(rows(5))
    assert IcebergSink().alter_offsets(config(tmp_path), {PARTITION: 1})
    context = SinkContext(positions={PARTITION: 1})
    task(tmp_path, context)
    assert context.offsets == {}
    with pytest.raises(Fenced):
        made.put(rows(1, 5))
    assert IcebergSink().alter_offsets(config(tmp_path), {PARTITION: None, ("none", 0): 5})
    task(tmp_path).put(rows(3))
    assert names(tmp_path) == sorted([*of(0, 3), *of(0, 3)])


def test_a_topic_that_was_made_again(tmp_path: Path) -> None:
    task(tmp_path, SinkContext(topic_ids={"orders": "old"})).put(rows(3))
    task(tmp_path, SinkContext(topic_ids={"orders": "old"}))
    with pytest.raises(ConfigError, match="records of another topic orders"):
        task(tmp_path, SinkContext(topic_ids={"orders": "new"}))
    assert IcebergSink().alter_offsets(config(tmp_path), {PARTITION: 0})
    task(tmp_path, SinkContext(topic_ids={"orders": "new"})).put(rows(3))
    task(tmp_path, SinkContext(topic_ids={"orders": "new"}))


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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"type": "glue"}, r"iceberg\.catalog\.type=glue was not tried"),
        ({"py-catalog-impl": "a.B"}, r"iceberg\.catalog\.type=a\.B was not tried"),
        ({"uri": ""}, r"iceberg\.catalog\.uri is missing"),
        ({"uri": "sqlite:///relative.db"}, "names no file that all tasks reach"),
        ({"uri": "sqlite://"}, "names no file that all tasks reach"),
        ({"uri": "mysql://x/y"}, "names no PostgreSQL or SQLite"),
        ({"warehouse": "relative"}, r"iceberg\.catalog\.warehouse is no folder that all tasks reach"),
    ],
)
def test_settings_that_are_refused(tmp_path: Path, given: dict[str, str], said: str) -> None:
    made = {**config(tmp_path), "iceberg.catalog.*": {**settings(tmp_path), **given}}
    with pytest.raises(ConfigError, match=said):
        IcebergSink().validate(made)
    IcebergSink().validate(config(tmp_path))


@pytest.mark.parametrize("tables", [[], ["orders"], ["${topic}"], ["a.b", "a.c"]])
def test_tables_that_are_refused(tmp_path: Path, tables: list[str]) -> None:
    with pytest.raises(ConfigError, match="is not one table"):
        IcebergSink().validate({**config(tmp_path), "iceberg.tables": tables})


def test_offsets_of_several_connectors_are_carried_on(tmp_path: Path) -> None:
    write(its_table(tmp_path))
    other = _Table(catalog(tmp_path), config(tmp_path, name="its/orders"), PARTITION, "")
    write(other)
    metadata = table(tmp_path).metadata
    assert SnapshotOffsets("its", "orders").of(metadata, 0) == Entry(3, "")
    assert SnapshotOffsets("its/orders", "orders").of(metadata, 0) == Entry(3, "")
    assert SnapshotOffsets("another", "orders").of(metadata, 0) is None
