"""Globs of files, and generated records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semel.connect.connectors.datagen import DatagenSource
from semel.connect.connectors.files import FilesSource
from semel.errors import ConfigError, DataLoss
from tests.connect.support.reading import Reader


@pytest.mark.parametrize("tasks", [1, 3])
def test_globs_of_lines_json_and_csv(tmp_path: Path, tasks: int) -> None:
    (tmp_path / "deep").mkdir()
    for number in range(4):
        (tmp_path / f"{number}.csv").write_text(f"id,name\n{number},a\n{number + 10},b")
        (tmp_path / "deep" / f"{number}.json").write_text(f'{{"n":{number}}}\n{{"n":{number + 10}}}\n')
    common: dict[str, Any] = {"topic": "t", "batch_size": 1, "directory_poll_interval_ms": 0}
    csv = Reader(FilesSource(), tasks, files=str(tmp_path / "*.csv"), format="csv", **common)
    csv.read(4)
    csv.start()
    for number in range(4):
        with (tmp_path / f"{number}.csv").open("a") as file:
            file.write("\n")
    (tmp_path / "later.csv").write_text("id,name\n99,c\n")
    wanted = [{"id": str(n + more), "name": name} for n in range(4) for more, name in ((0, "a"), (10, "b"))]
    assert sorted(csv.read(9), key=str) == sorted([*wanted, {"id": "99", "name": "c"}], key=str)
    deep = Reader(FilesSource(), tasks, files=str(tmp_path / "**" / "*.json"), format="json", **common)
    assert sorted(row["n"] for row in deep.read(8)) == [0, 1, 2, 3, 10, 11, 12, 13]
    lines = Reader(FilesSource(), tasks, files=str(tmp_path / "later.csv"), format="lines", **common)
    assert lines.read(2) == ["id,name", "99,c"]


def test_texts_of_json_that_look_like_times_stay_texts(tmp_path: Path) -> None:
    lines = ['{"day":"2024-01-01","in":{"at":["2024-01-01 10:00:00"]}}', '{"day":"2024-01-02"}']
    (tmp_path / "days.json").write_text("\n".join(lines) + "\n")
    reader = Reader(FilesSource(), files=str(tmp_path / "*.json"), format="json", topic="t")
    assert reader.read(2) == [
        {"day": "2024-01-01", "in": {"at": ["2024-01-01 10:00:00"]}},
        {"day": "2024-01-02"},
    ]


def test_a_line_of_json_is_what_it_is_whatever_other_lines_hold(tmp_path: Path) -> None:
    lines = ['{"a":1}', '{"b":2}', "", '{"a":1.0,"b":null}', '{"a":"x"}', '{"a":9007199254740993}']
    (tmp_path / "some.json").write_text("\n".join(lines) + "\n")
    reader = Reader(FilesSource(), files=str(tmp_path / "*.json"), format="json", topic="t")
    assert repr(reader.read(5)) == "[{'a': 1}, {'b': 2}, {'a': 1.0, 'b': None}, {'a': 'x'}, {'a': 9007199254740993}]"


@pytest.mark.parametrize("line", ["{", "[1]", "1", '{"a":NaN}'])
def test_a_line_that_is_no_object_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "some.json").write_text(f"{line}\n")
    reader = Reader(FilesSource(), files=str(tmp_path / "*.json"), format="json", topic="t")
    with pytest.raises(ConfigError, match="is not json"):
        reader.poll()


def test_a_file_that_was_replaced_while_nothing_ran_is_not_read_from_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text("one\ntwo\n")
    reader = Reader(FilesSource(), files=str(path), format="lines", topic="t")
    reader.read(2)
    path.unlink()
    path.write_text("a line that is longer\n")
    reader.start()
    with pytest.raises(DataLoss, match="no line ends at byte 8"):
        reader.poll()


def test_generated_records_go_on_where_they_stopped() -> None:
    reader = Reader(DatagenSource(), 2, topic="t", iterations=25, batch_size=10, record_size=5)
    reader.poll()
    reader.start()
    rows = sorted((row["task"], row["id"], row["text"]) for row in reader.read(50))
    assert rows == [(task, number, f"{number:x>5}") for task in range(2) for number in range(25)]
    assert reader.poll() == 0
    assert isinstance(reader.values, list)
    assert pa.array(reader.values).type.num_fields == 3
