"""``FileSink`` on a folder: where files end, what they hold, and what a task that is late finds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from math import inf
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from semel.connect import Setting, SinkBatch, SinkContext
from semel.connect.connectors.sinks.files import FileSink, FileSinkTask
from semel.connect.connectors.sinks.folder import Folder, Mark, mark_owner, owner
from semel.errors import ConfigError, Fenced, Retriable
from tests.connect.support.sink_batches import PARTITION, batch
from tests.support.waiting import wait_for

FOLDER = "topics/orders/partition=0"


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Move the clock on."""

    def move(seconds: float) -> None:
        before = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: before() + seconds)

    return move


def config(path: Path | str, **more: Any) -> Mapping[str, Any]:
    defaults = {name: one.default for name, one in FileSink.config.items() if isinstance(one, Setting)}
    named = {name.replace("_", "."): value for name, value in more.items()}
    return {**defaults, "name": "its", "path": str(path), "flush.size": 3, **named}


def task(path: Path, context: SinkContext | None = None, **more: Any) -> FileSinkTask:
    made = FileSinkTask()
    made.start(config(path, **more), context or SinkContext())
    made.open([PARTITION])
    return made


def rows(count: int, start: int = 0) -> SinkBatch:
    values = [({"id": n}, {"name": f"n{n}", "price": Decimal("1.50")}) for n in range(start, start + count)]
    return batch(values, start)


def names(path: Path) -> list[str]:
    return sorted(one.name for one in (path / FOLDER).iterdir() if one.is_file())


def lines(path: Path) -> list[Any]:
    return [
        json.loads(line)["name"] for name in names(path) for line in (path / FOLDER / name).read_text().splitlines()
    ]


def test_a_file_has_its_records_whatever_the_batches(tmp_path: Path) -> None:
    for folder, sizes in ((tmp_path / "a", [7]), (tmp_path / "b", [1, 2, 1, 3]), (tmp_path / "c", [4, 3])):
        made, start = task(folder), 0
        for size in sizes:
            made.put(rows(size, start))
            start += size
        assert names(folder) == ["orders+0+0000000000+0000000002.json", "orders+0+0000000003+0000000005.json"]
        assert lines(folder) == [f"n{n}" for n in range(6)]
        assert made.pre_commit({PARTITION: 7}) == {PARTITION: 6}
    written = [[(tmp_path / one / FOLDER / name).read_bytes() for name in names(tmp_path / one)] for one in "abc"]
    assert written[0] == written[1] == written[2]


def test_a_task_resumes_after_the_last_file(tmp_path: Path) -> None:
    task(tmp_path).put(rows(5))
    context = SinkContext(positions={PARTITION: 0})
    later = task(tmp_path, context)
    assert context.offsets == {PARTITION: 3}
    later.put(rows(4, 3))
    later.put(rows(4, 3))  # a batch that comes again
    assert lines(tmp_path) == [f"n{n}" for n in range(6)]
    ahead = SinkContext(positions={PARTITION: 9})
    task(tmp_path, ahead)
    assert ahead.offsets == {}


def test_each_file_asks_for_a_commit(tmp_path: Path) -> None:
    context = SinkContext()
    made = task(tmp_path, context)
    for size, start, asked in ((2, 0, False), (1, 2, True), (2, 3, False), (5, 5, True)):
        made.put(rows(size, start))
        assert (context.commit_at < inf) is asked
        context.commit_at = inf


def test_the_tail_of_a_quiet_topic(tmp_path: Path) -> None:
    context = SinkContext()
    made = task(tmp_path, context, rotate_schedule_interval_ms=1)
    made.put(rows(2))
    assert context.commit_at < inf
    wait_for(lambda: made.pre_commit({PARTITION: 2}) == {PARTITION: 2}, "the file")
    assert names(tmp_path) == ["orders+0+0000000000+0000000001.json"]
    context.commit_at = inf
    assert made.pre_commit({PARTITION: 2}) == {PARTITION: 2}
    assert context.commit_at == inf
    resumed = SinkContext(positions={PARTITION: 0})
    task(tmp_path, resumed)
    assert resumed.offsets == {PARTITION: 2}


def test_a_tail_whose_time_is_not_over(tmp_path: Path, later: Callable[[float], None]) -> None:
    context = SinkContext()
    made = task(tmp_path, context, rotate_schedule_interval_ms=3_600_000)
    made.put(rows(1))
    first, context.commit_at = context.commit_at, inf
    later(1800)
    made.put(rows(1, 1))
    assert made.pre_commit({PARTITION: 2}) == {PARTITION: 0}
    assert context.commit_at == pytest.approx(first, abs=600)
    assert names(tmp_path) == []
    later(1800)
    assert made.pre_commit({PARTITION: 2}) == {PARTITION: 2}
    assert names(tmp_path) == ["orders+0+0000000000+0000000001.json"]


def test_a_tail_that_cannot_be_written_is_tried_again(tmp_path: Path, later: Callable[[float], None]) -> None:
    context = SinkContext()
    made = task(tmp_path, context, rotate_schedule_interval_ms=3_600_000)
    made.put(rows(2))
    away = (tmp_path / FOLDER).rename(tmp_path / "away")
    later(3600)
    context.commit_at = inf
    assert made.pre_commit({PARTITION: 2}) == {PARTITION: 0}
    assert context.commit_at < inf
    away.rename(tmp_path / FOLDER)
    assert made.pre_commit({PARTITION: 2}) == {PARTITION: 2}
    assert lines(tmp_path) == ["n0", "n1"]


def test_a_tail_of_a_task_that_is_late_is_fenced(tmp_path: Path, later: Callable[[float], None]) -> None:
    late = task(tmp_path, rotate_schedule_interval_ms=3_600_000)
    late.put(rows(1))
    other = task(tmp_path, rotate_schedule_interval_ms=3_600_000)
    other.put(rows(2))
    later(3600)
    assert other.pre_commit({PARTITION: 2}) == {PARTITION: 2}
    for one in (tmp_path / FOLDER).glob("*.json"):
        one.unlink()
    with pytest.raises(Fenced):
        late.pre_commit({PARTITION: 1})
    assert names(tmp_path) == []


def test_a_task_that_is_late_is_fenced(tmp_path: Path) -> None:
    late, context = task(tmp_path, flush_size=2), SinkContext()
    late.put(rows(3))
    other = task(tmp_path, context)
    assert context.offsets == {PARTITION: 2}
    with pytest.raises(Fenced, match="another task has claimed"):
        late.put(rows(1, 3))
    other.put(rows(3, 2))
    for one in (tmp_path / FOLDER).glob("*.json"):
        one.unlink()  # as one that moves files does
    with pytest.raises(Fenced):
        late.put(rows(1, 3))
    assert names(tmp_path) == []


def test_a_task_that_freezes_before_a_rename_is_fenced(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.claim()
    with pytest.raises(FileNotFoundError):
        folder.write("late", b"late", Folder(tmp_path).claim)
    assert folder.lost()
    assert folder.names() == []
    assert len(list(tmp_path.iterdir())) == 1


def test_of_two_claims_one_holds(tmp_path: Path) -> None:
    first, second = Folder(tmp_path), Folder(tmp_path)
    first.claim()
    second.claim()
    assert [first.lost(), second.lost()] == [True, False]
    first.claim()
    assert [first.lost(), second.lost()] == [False, True]


def test_names_of_others_say_nothing(tmp_path: Path) -> None:
    task(tmp_path).put(rows(3))
    for name in (
        "other+0+0000000000+0000099999.json",
        "orders+7+0000000000+0000099999.json",
        "orders+0+0000000000+0000099999.bak",
        "more+orders+0+0000000000+0000099999.json",
        "orders+0+0000000000+0000099999.json.json",
    ):
        (tmp_path / FOLDER / name).touch()
    context = SinkContext(positions={PARTITION: 0})
    task(tmp_path, context)
    assert context.offsets == {PARTITION: 3}


def test_a_topic_that_begins_with_a_dot(tmp_path: Path) -> None:
    dotted, context = (".semel", 0), SinkContext(positions={(".semel", 0): 0})
    made = FileSinkTask()
    made.start(config(tmp_path), context)
    made.open([dotted])
    made.put(SinkBatch(dotted, rows(3).tables, 0, 3))
    made.open([dotted])
    assert context.offsets == {dotted: 3}


def test_a_folder_belongs_to_one_connector(tmp_path: Path) -> None:
    task(tmp_path).put(rows(3))
    other = FileSinkTask()
    other.start({**config(tmp_path, format_class="ParquetFormat"), "name": "other"}, SinkContext())
    with pytest.raises(ConfigError, match="belongs to connector 'its'"):
        other.open([("free", 0), PARTITION])
    assert not (tmp_path / "topics/free").exists()
    context = SinkContext(positions={PARTITION: 0})
    task(tmp_path, context, format_class="ParquetFormat").put(rows(3, 3))  # another format of the same connector
    assert context.offsets == {PARTITION: 3}
    assert names(tmp_path) == ["orders+0+0000000000+0000000002.json", "orders+0+0000000003+0000000005.parquet"]


def test_the_first_of_two_owners_stays(tmp_path: Path) -> None:
    assert owner(tmp_path / "new") is None
    marks = [Mark("a", "id"), Mark("b", "id"), Mark("a", "other")]
    assert [mark_owner(tmp_path / "new", one) for one in marks] == [marks[0]] * 3
    assert [one.name for one in (tmp_path / "new").iterdir()] == [".semel"]


def test_a_topic_that_was_made_again(tmp_path: Path) -> None:
    """Its first records have the offsets of files that are there: they were passed over, as if they were written."""
    task(tmp_path, SinkContext(topic_ids={"orders": "old"})).put(rows(3))
    task(tmp_path, SinkContext(topic_ids={"orders": "old"}))
    task(tmp_path)  # brokers that do not say
    with pytest.raises(ConfigError, match=r"files of another topic of this name.*topics\.dir"):
        task(tmp_path, SinkContext(topic_ids={"orders": "new"}))
    (tmp_path / "topics/orders/.semel/owner").write_text("its\n")  # as an older semel has marked it
    task(tmp_path, SinkContext(topic_ids={"orders": "new"}))


def test_files_of_other_offsets_stop_a_task(tmp_path: Path) -> None:
    made = task(tmp_path)
    made.put(rows(2))
    (tmp_path / FOLDER / "orders+0+0000000000+0000000001.json").touch()
    with pytest.raises(Fenced, match="files of other offsets"):
        made.put(rows(2, 2))


def test_another_schema_ends_a_file(tmp_path: Path) -> None:
    made = task(tmp_path, format_class="ParquetFormat")
    made.put(rows(2))
    wider = pa.struct([pa.field("name", pa.string()), pa.field("more", pa.int32())])
    made.put(batch([({"id": 2}, {"name": "n2", "more": 5})] * 3, 2, wider))
    first, second = (parquet.read_table(tmp_path / FOLDER / one) for one in names(tmp_path))
    assert first.to_pylist() == [{"name": f"n{n}", "price": Decimal("1.50")} for n in range(2)]
    assert second.to_pylist() == [{"name": "n2", "more": 5}] * 3
    assert names(tmp_path)[1] == "orders+0+0000000002+0000000004.parquet"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs_of_parquet(tmp_path: Path, codec: str) -> None:
    task(tmp_path, format_class="ParquetFormat", parquet_codec=codec).put(rows(3))
    (name,) = names(tmp_path)
    assert parquet.read_table(tmp_path / FOLDER / name)["name"].to_pylist() == ["n0", "n1", "n2"]


def test_timestamps_end_a_file(tmp_path: Path) -> None:
    made = task(tmp_path, rotate_interval_ms=100, flush_size=10)
    timed = rows(4)
    times = pa.array([1000, 1099, 1100, 1250], pa.timestamp("ms"))
    made.put(SinkBatch(PARTITION, [timed.tables[0].set_column(3, "timestamp", times)], 0, 4))
    assert names(tmp_path) == ["orders+0+0000000000+0000000001.json", "orders+0+0000000002+0000000002.json"]


def test_csv(tmp_path: Path) -> None:
    task(tmp_path, format_class="CsvFormat").put(rows(3))
    (name,) = names(tmp_path)
    assert csv.read_csv(tmp_path / FOLDER / name).to_pylist() == [{"name": f"n{n}", "price": 1.5} for n in range(3)]
    nested = pa.struct([pa.field("a", pa.list_(pa.int32()))])
    with pytest.raises(ConfigError, match="CSV has no cell for field a"):
        task(tmp_path / "nested", format_class="CsvFormat").put(batch([({"id": 1}, {"a": [1]})] * 3, 0, nested))


def test_values_without_fields_are_json_lines(tmp_path: Path) -> None:
    task(tmp_path / "text").put(batch([(None, "a\nb")] * 3, 0, pa.string()))
    (name,) = names(tmp_path / "text")
    assert (tmp_path / "text" / FOLDER / name).read_text() == '"a\\nb"\n' * 3
    table = batch([(None, None)] * 3).tables[0]
    values = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a":\n1}', "2", '"x"']))
    loose = table.set_column(table.schema.get_field_index("value"), pa.field("value", values.type), values)
    task(tmp_path / "loose").put(SinkBatch(PARTITION, [loose], 0, 3))
    (name,) = names(tmp_path / "loose")
    assert (tmp_path / "loose" / FOLDER / name).read_text() == '{"a":1}\n2\n"x"\n'
    with pytest.raises(ConfigError, match="has no fields"):
        task(tmp_path / "p", format_class="ParquetFormat").put(batch([(None, "x")] * 3, 0, pa.string()))


def test_nulls_fail_or_are_left_out(tmp_path: Path) -> None:
    mixed = batch([({"id": n}, None if n == 1 else {"name": f"n{n}", "price": None}) for n in range(4)])
    with pytest.raises(ConfigError, match="the record at offset 1 of orders-0 was refused: its value is null"):
        task(tmp_path).put(mixed)
    task(tmp_path, behavior_on_null_values="ignore").put(mixed)
    assert lines(tmp_path) == ["n0", "n2", "n3"]
    assert names(tmp_path) == ["orders+0+0000000000+0000000003.json"]


def test_a_folder_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    made = task(tmp_path)
    folder = tmp_path / FOLDER
    away = folder.rename(tmp_path / "away")
    with pytest.raises(Retriable):
        made.put(rows(4))
    away.rename(folder)
    made.put(rows(4))
    made.put(rows(2, 4))
    assert lines(tmp_path) == [f"n{n}" for n in range(6)]


def test_what_was_not_renamed_is_removed(tmp_path: Path) -> None:
    (tmp_path / FOLDER / ".claim-x").mkdir(parents=True)
    (tmp_path / FOLDER / ".claim-x/.x.tmp").touch()
    (tmp_path / FOLDER / ".ended-x").mkdir()
    task(tmp_path)
    assert names(tmp_path) == []
    assert len(list((tmp_path / FOLDER).iterdir())) == 1


@pytest.mark.parametrize("path", ["relative/path", "s3:///path", "gs://bucket/path", "file://host/path"])
def test_a_path_of_another_system(path: str) -> None:
    with pytest.raises(ConfigError, match="is no folder that this sink writes to"):
        FileSink().validate(config(path))
