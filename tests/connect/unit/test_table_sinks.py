"""What sinks of tables have in common, Delta and Iceberg: where a task resumes, who is fenced, columns that come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semel.connect import SinkBatch, SinkContext
from semel.errors import ConfigError, Fenced
from tests.connect.support import delta_tables, iceberg_tables
from tests.connect.support.sink_batches import PARTITION, VALUE, batch, of
from tests.connect.unit.test_file_sink import rows


@pytest.fixture(params=[delta_tables, iceberg_tables], ids=["delta", "iceberg"])
def tables(request: pytest.FixtureRequest) -> Any:
    """The tables of one format: the module that makes and reads them."""
    return request.param


def test_a_task_resumes_where_the_table_says(tables: Any, tmp_path: Path) -> None:
    tables.task(tmp_path).put(rows(4))
    context = SinkContext(positions={PARTITION: 0})
    later = tables.task(tmp_path, context)
    assert context.offsets == {PARTITION: 3}
    later.put(rows(4, 3))
    later.put(rows(4, 3))  # a batch that comes again
    assert tables.names(tmp_path) == of(0, 6)
    assert later.pre_commit({PARTITION: 7}) == {PARTITION: 6}


def test_a_task_that_is_late_is_fenced(tables: Any, tmp_path: Path) -> None:
    late, other = tables.task(tmp_path), tables.task(tmp_path, flush_size=2)
    late.put(rows(2))
    other.put(rows(4))
    with pytest.raises(Fenced, match="another task has committed rows of orders-0"):
        late.put(rows(1, 2))
    assert tables.names(tmp_path) == of(0, 4)


def test_offsets_that_are_changed_by_rest(tables: Any, tmp_path: Path) -> None:
    made = tables.task(tmp_path)
    made.put(rows(5))
    assert tables.SINK().alter_offsets(tables.config(tmp_path), {PARTITION: 1})
    context = SinkContext(positions={PARTITION: 1})
    tables.task(tmp_path, context)
    assert context.offsets == {}
    with pytest.raises(Fenced):
        made.put(rows(1, 5))
    assert tables.SINK().alter_offsets(tables.config(tmp_path), {PARTITION: None, ("none", 0): 5})
    tables.task(tmp_path).put(rows(3))
    assert tables.names(tmp_path) == sorted([*of(0, 3), *of(0, 3)])


def test_a_topic_that_was_made_again(tables: Any, tmp_path: Path) -> None:
    tables.task(tmp_path, SinkContext(topic_ids={"orders": "old"})).put(rows(3))
    tables.task(tmp_path, SinkContext(topic_ids={"orders": "old"}))
    with pytest.raises(ConfigError, match="records of another topic orders"):
        tables.task(tmp_path, SinkContext(topic_ids={"orders": "new"}))
    assert tables.SINK().alter_offsets(tables.config(tmp_path), {PARTITION: 0})
    tables.task(tmp_path, SinkContext(topic_ids={"orders": "new"})).put(rows(3))
    tables.task(tmp_path, SinkContext(topic_ids={"orders": "new"}))


def test_columns_that_come_and_go(tables: Any, tmp_path: Path) -> None:
    tables.task(tmp_path, flush_size=1).put(rows(1))
    wider = pa.struct([*VALUE, pa.field("more", pa.int32())])
    second = batch([({"id": 1}, {"name": "n1", "price": None, "more": 7})], 1, wider)
    with pytest.raises(ConfigError, match="lacks the column more"):
        tables.task(tmp_path, flush_size=1).put(second)
    tables.task(tmp_path, flush_size=1, **tables.EVOLVES).put(second)
    narrow = batch([({"id": 2}, {"name": "n2"})], 2, pa.struct([pa.field("name", pa.string())]))
    tables.task(tmp_path, flush_size=1).put(narrow)
    found = tables.records(tmp_path).select(["name", "more"]).to_pylist()
    assert sorted(found, key=lambda one: str(one["name"])) == [
        {"name": "n0", "more": None},
        {"name": "n1", "more": 7},
        {"name": "n2", "more": None},
    ]
    lists = pa.struct([pa.field("name", pa.list_(pa.int64()))])
    other = batch([({"id": 3}, {"name": [5]})], 3, lists)
    with pytest.raises(ConfigError, match="record at offset 3 of orders-0 was refused: it does not fit the table"):
        tables.task(tmp_path, flush_size=1).put(other)
    several = batch(
        [({"id": n}, {"name": [n]}) for n in (3, 4, 5)], 3, pa.struct([pa.field("name", pa.list_(pa.int64()))])
    )
    with pytest.raises(ConfigError, match="record at offset 3 of orders-0 was refused: it does not fit the table"):
        tables.task(tmp_path).put(several)


def test_fields_within_fields_that_come_and_go(tables: Any, tmp_path: Path) -> None:
    def at(offset: int, inner: Any, kind: Any) -> SinkBatch:
        fields = pa.struct([pa.field("inner", kind), pa.field("name", pa.string())])
        return batch([({"id": offset}, {"name": f"n{offset}", "inner": inner})], offset, fields)

    here, more = pa.field("here", pa.int64()), pa.field("more", pa.int64())
    tables.task(tmp_path, flush_size=1).put(at(0, [{"here": 0}], pa.list_(pa.struct([here]))))
    wider = at(1, [{"more": 7, "here": 1}], pa.list_(pa.struct([more, here])))
    with pytest.raises(ConfigError, match=r"lacks the column inner\.more"):
        tables.task(tmp_path, flush_size=1).put(wider)
    tables.task(tmp_path, flush_size=1, **tables.EVOLVES).put(wider)
    tables.task(tmp_path, flush_size=1).put(at(2, [{"more": 8}], pa.list_(pa.struct([more]))))
    found = tables.records(tmp_path).sort_by("name").to_pylist()
    assert [one["inner"] for one in found] == [
        [{"here": 0, "more": None}],
        [{"here": 1, "more": 7}],
        [{"here": None, "more": 8}],
    ]
