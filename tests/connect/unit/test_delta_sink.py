"""``DeltaSink`` on a folder: rows and offsets in one commit, and what a task that is late finds."""

from __future__ import annotations

from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from semel.connect import SinkBatch, SinkContext
from semel.connect.connectors.sinks.delta import DeltaSink, _Table
from semel.errors import ConfigError, Fenced, Retriable
from tests.connect.support.delta_tables import config, names, task
from tests.connect.support.sink_batches import PARTITION, batch, of
from tests.connect.unit.test_file_sink import rows


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
    first, second = task(tmp_path), task(tmp_path, partition=1)
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
