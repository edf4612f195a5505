"""``DeltaSink`` on a folder: rows and offsets in one commit, and what a task that is late finds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from semel.connect import Setting, SinkBatch, SinkContext
from semel.connect.connectors.sinks.delta import DeltaSink, DeltaSinkTask, _Table
from semel.errors import ConfigError, Fenced, Retriable
from tests.connect.support.sink_batches import PARTITION, VALUE, batch
from tests.connect.unit.test_file_sink import rows


def config(path: Path | str, **more: Any) -> Mapping[str, Any]:
    defaults = {name: one.default for name, one in DeltaSink.config.items() if isinstance(one, Setting)}
    named = {name.replace("_", "."): value for name, value in more.items()}
    return {**defaults, "name": "its", "path": str(path), "flush.size": 3, "auto.create": True, **named}


def task(path: Path, context: SinkContext | None = None, **more: Any) -> DeltaSinkTask:
    made = DeltaSinkTask()
    made.start(config(path, **more), context or SinkContext())
    made.open([PARTITION])
    return made


def names(path: Path) -> list[str]:
    """Read the table by a library that did not write it."""
    files = DeltaTable(str(path / "orders")).file_uris()
    return sorted(name for (name,) in duckdb.execute("SELECT name FROM read_parquet(?)", [files]).fetchall())


def of(first: int, last: int) -> list[str]:
    return sorted(f"n{n}" for n in range(first, last))


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

    def _properties(self, offset: int, topic: str) -> Any:
        made, self._properties = super()._properties(offset, topic), super()._properties  # type: ignore[method-assign]
        task(Path(self._uri).parent, flush_size=2).put(rows(4))
        return made


class Careless(Late):
    """The control: its commits do not say their offsets."""

    def _properties(self, offset: int, topic: str) -> Any:
        super()._properties(offset, topic)
        return self._library.CommitProperties()


def write(table: _Table) -> None:
    table.open(0)
    made = rows(3).tables[0]
    table.write(0, 2, made["value"].combine_chunks(), made.schema.field("value"), lambda: None)


def test_a_task_that_freezes_before_its_commit_is_fenced(tmp_path: Path) -> None:
    with pytest.raises(Fenced):
        write(Late(config(tmp_path), PARTITION, ""))
    assert names(tmp_path) == of(0, 4)


def test_the_control_doubles(tmp_path: Path) -> None:
    write(Careless(config(tmp_path), PARTITION, ""))
    assert names(tmp_path) == sorted([*of(0, 4), *of(0, 3)])


def test_partitions_do_not_hinder_each_other(tmp_path: Path) -> None:
    first, second = task(tmp_path), DeltaSinkTask()
    second.start(config(tmp_path), SinkContext())
    second.open([("orders", 1)])
    first.put(rows(2))
    second.put(SinkBatch(("orders", 1), rows(3).tables, 0, 3))
    first.put(rows(1, 2))
    assert names(tmp_path) == sorted([*of(0, 3), *of(0, 3)])


def test_an_answer_that_was_lost(tmp_path: Path) -> None:
    table = _Table(config(tmp_path), PARTITION, "")
    write(table)
    table._at = None  # as if it had not heard
    made = rows(3).tables[0]
    table.write(0, 2, made["value"].combine_chunks(), made.schema.field("value"), lambda: None)
    assert names(tmp_path) == of(0, 3)


def test_types(tmp_path: Path) -> None:
    kind = pa.struct(
        [
            pa.field("small", pa.int8(), nullable=False),
            pa.field("price", pa.decimal128(38, 2)),
            pa.field("at", pa.timestamp("ms")),
            pa.field("tags", pa.list_(pa.field("item", pa.string()))),
            pa.field("stock", pa.map_(pa.string(), pa.int64())),
            pa.field("inner", pa.struct([pa.field("at", pa.timestamp("ms"))])),
        ]
    )
    at = datetime(2026, 1, 1, 0, 0, 0, 5000)
    row = {"small": 1, "price": Decimal("1.50"), "at": at, "tags": ["a"], "stock": [("a", 1)], "inner": {"at": at}}
    task(tmp_path, flush_size=1).put(batch([({"id": 1}, row)], 0, kind))
    (found,) = DeltaTable(str(tmp_path / "orders")).to_pyarrow_table().to_pylist()
    moment = at.replace(tzinfo=UTC)
    assert found == {**row, "at": moment, "inner": {"at": moment}}
    hour = pa.struct([pa.field("hour", pa.time32("ms"))])
    with pytest.raises(ConfigError, match="no column for the time of a day in field hour"):
        task(tmp_path, flush_size=1).put(batch([({"id": 1}, {"hour": time(1)})] * 2, 0, hour))


def test_columns_that_come_and_go(tmp_path: Path) -> None:
    task(tmp_path, flush_size=1).put(rows(1))
    wider = pa.struct([*VALUE, pa.field("more", pa.int32())])
    second = batch([({"id": 1}, {"name": "n1", "price": None, "more": 7})], 1, wider)
    with pytest.raises(ConfigError, match="lacks the column more"):
        task(tmp_path, flush_size=1).put(second)
    task(tmp_path, flush_size=1, auto_evolve=True).put(second)
    narrow = batch([({"id": 2}, {"name": "n2"})], 2, pa.struct([pa.field("name", pa.string())]))
    task(tmp_path, flush_size=1).put(narrow)
    found = DeltaTable(str(tmp_path / "orders")).to_pyarrow_table().select(["name", "more"]).to_pylist()
    assert sorted(found, key=lambda one: str(one["name"])) == [
        {"name": "n0", "more": None},
        {"name": "n1", "more": 7},
        {"name": "n2", "more": None},
    ]
    other = batch([({"id": 3}, {"name": [5]})], 3, pa.struct([pa.field("name", pa.list_(pa.int64()))]))
    with pytest.raises(ConfigError, match="does not fit the table"):
        task(tmp_path, flush_size=1).put(other)


def test_a_table_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no table of Delta.*set auto\.create=true"):
        task(tmp_path, auto_create=False).put(rows(3))
    there = pa.table({"name": ["mine"], "price": pa.array([None], pa.decimal128(38, 2))})
    write_deltalake(str(tmp_path / "orders"), there)
    task(tmp_path, auto_create=False).put(rows(3))
    assert names(tmp_path) == sorted(["mine", *of(0, 3)])


def test_a_checkpoint_keeps_the_offset(tmp_path: Path) -> None:
    task(tmp_path).put(rows(6))
    table, log = DeltaTable(str(tmp_path / "orders")), tmp_path / "orders/_delta_log"
    table.create_checkpoint()
    for one in sorted(log.glob("*.json"))[:-1]:
        one.unlink()
    context = SinkContext(positions={PARTITION: 0})
    task(tmp_path, context)
    assert context.offsets == {PARTITION: 6}
    table.alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 1 day"}, False)
    with pytest.raises(ConfigError, match="forgets application transactions"):
        task(tmp_path)


def test_a_value_that_the_table_refuses(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("name", pa.string(), nullable=False), pa.field("price", pa.decimal128(38, 2))])
    DeltaTable.create(str(tmp_path / "orders"), schema)
    with pytest.raises(ConfigError, match="does not fit the table"):
        task(tmp_path, flush_size=1).put(batch([({"id": 0}, {"name": None, "price": None})]))


def test_offsets_that_are_changed_by_rest(tmp_path: Path) -> None:
    late = task(tmp_path)
    late.put(rows(5))
    assert DeltaSink().alter_offsets(config(tmp_path), {PARTITION: 1})
    context = SinkContext(positions={PARTITION: 1})
    task(tmp_path, context)
    assert context.offsets == {}
    with pytest.raises(Fenced):
        late.put(rows(1, 5))
    assert DeltaSink().alter_offsets(config(tmp_path), {PARTITION: None, ("none", 0): 5})
    task(tmp_path).put(rows(3))
    assert names(tmp_path) == sorted([*of(0, 3), *of(0, 3)])


def test_a_topic_that_was_made_again(tmp_path: Path) -> None:
    task(tmp_path, SinkContext(topic_ids={"orders": "old"})).put(rows(3))
    task(tmp_path, SinkContext(topic_ids={"orders": "old"}))
    with pytest.raises(ConfigError, match="records of another topic orders"):
        task(tmp_path, SinkContext(topic_ids={"orders": "new"}))
    assert DeltaSink().alter_offsets(config(tmp_path), {PARTITION: 0})
    task(tmp_path, SinkContext(topic_ids={"orders": "new"})).put(rows(3))
    task(tmp_path, SinkContext(topic_ids={"orders": "new"}))


def test_a_folder_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    made = task(tmp_path)
    made.put(rows(3))
    log = tmp_path / "orders/_delta_log"
    away = log.rename(tmp_path / "away")
    log.write_text("in the way")
    with pytest.raises(ConfigError, match="the folder of path cannot be used"):
        DeltaSink().alter_offsets(config(tmp_path), {PARTITION: 0})
    with pytest.raises(Retriable):
        made.put(rows(3, 3))
    log.unlink()
    away.rename(log)
    made.put(rows(3, 3))
    assert names(tmp_path) == of(0, 6)


@pytest.mark.parametrize("path", ["relative", "gs://bucket/x"])
def test_a_path_of_another_system(path: str) -> None:
    with pytest.raises(ConfigError, match="is no folder that this sink writes to"):
        DeltaSink().validate(config(path))


def test_fields_within_fields_that_come_and_go(tmp_path: Path) -> None:
    def at(offset: int, inner: Any, kind: Any) -> SinkBatch:
        fields = pa.struct([pa.field("inner", kind), pa.field("name", pa.string())])
        return batch([({"id": offset}, {"name": f"n{offset}", "inner": inner})], offset, fields)

    here, more = pa.field("here", pa.int64()), pa.field("more", pa.int64())
    task(tmp_path, flush_size=1).put(at(0, [{"here": 0}], pa.list_(pa.struct([here]))))
    wider = at(1, [{"more": 7, "here": 1}], pa.list_(pa.struct([more, here])))
    with pytest.raises(ConfigError, match=r"lacks the column inner\.more"):
        task(tmp_path, flush_size=1).put(wider)
    task(tmp_path, flush_size=1, auto_evolve=True).put(wider)
    task(tmp_path, flush_size=1).put(at(2, [{"more": 8}], pa.list_(pa.struct([more]))))
    found = DeltaTable(str(tmp_path / "orders")).to_pyarrow_table().sort_by("name").to_pylist()
    assert [one["inner"] for one in found] == [
        [{"here": 0, "more": None}],
        [{"here": 1, "more": 7}],
        [{"here": None, "more": 8}],
    ]


@pytest.mark.parametrize(
    ("there", "kind", "value"),
    [
        (pa.date32(), pa.timestamp("ms"), datetime(2026, 1, 1, 5)),
        (pa.bool_(), pa.int64(), 7),
    ],
)
def test_a_value_that_the_column_would_change(tmp_path: Path, there: Any, kind: Any, value: Any) -> None:
    DeltaTable.create(str(tmp_path / "orders"), pa.schema([pa.field("name", there)]))
    with pytest.raises(ConfigError, match="does not fit the table"):
        task(tmp_path, flush_size=1).put(batch([({"id": 0}, {"name": value})], 0, pa.struct([("name", kind)])))


def test_a_refusal_names_the_record(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("name", pa.string(), nullable=False), pa.field("price", pa.int8())])
    DeltaTable.create(str(tmp_path / "orders"), schema)
    good, null = ({"id": 0}, {"name": "a", "price": 1}), ({"id": 0}, {"name": None, "price": 1})
    kind = pa.struct([pa.field("name", pa.string()), pa.field("price", pa.int64())])
    with pytest.raises(ConfigError, match="the record at offset 12 of orders-0 was refused"):
        task(tmp_path).put(batch([good, good, null], 10, kind))
    large = ({"id": 0}, {"name": "a", "price": 300})
    with pytest.raises(ConfigError, match="the record at offset 11 of orders-0 was refused: it does not fit the table"):
        task(tmp_path).put(batch([good, large, null], 10, kind))
    kind = pa.struct([pa.field("name", pa.string()), pa.field("price", pa.string())])
    texts = [({"id": 0}, {"name": "a", "price": price}) for price in ("1", "x1", "x2")]
    with pytest.raises(ConfigError, match=r"at offset 11 of orders-0 was refused: .*'x1'"):
        task(tmp_path).put(batch(texts, 10, kind))
