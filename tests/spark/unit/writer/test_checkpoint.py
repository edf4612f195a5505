"""The checkpoint, read from files as Spark writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from semel.errors import ConfigError, DataLoss, Unsupported
from semel.spark.source_offset import dump, initial
from semel.spark.writer.checkpoint import Checkpoint
from semel.transaction.progress.record import KafkaSource, OpaqueSource

OURS = dump(initial("cluster", {"in": ("A" * 22, {0: 5})})).replace('"initial":true,', "")


def written(root: Path, *lines: str, batch: int = 0, version: str = "v1") -> Checkpoint:
    for folder in ("offsets", "commits"):
        (root / folder).mkdir(exist_ok=True)
    (root / "metadata").write_text(json.dumps({"id": "q"}))
    (root / "offsets" / str(batch)).write_text("\n".join([version, '{"batchWatermarkMs":0}', *lines]))
    (root / "offsets" / f".{batch}.crc").write_text("")
    return Checkpoint(str(root))


def test_query_batch_and_sources(tmp_path: Path) -> None:
    checkpoint = written(tmp_path, OURS, '{"logOffset":3}')
    assert (checkpoint.query(), checkpoint.batch()) == ("q", 0)
    ours, other = checkpoint.sources(0)
    assert isinstance(ours.end, KafkaSource)
    assert ours.end.topics["in"].end == {0: 5}
    assert ours.start == ours.began
    assert other.end == OpaqueSource('{"logOffset":3}')


def test_the_newest_batch_counts(tmp_path: Path) -> None:
    for batch in (8, 9, 10):
        checkpoint = written(tmp_path, OURS, batch=batch)
    assert checkpoint.batch() == 10


def test_state_shows(tmp_path: Path) -> None:
    checkpoint = written(tmp_path, OURS)
    assert not checkpoint.stateful()
    (tmp_path / "state" / "0" / "_metadata").mkdir(parents=True)
    assert checkpoint.stateful()


def test_a_batch_whose_start_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataLoss, match="offsets/3"):
        written(tmp_path, OURS, batch=4).sources(4)


def test_an_unknown_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="v1 and v2"):
        written(tmp_path, OURS, version="v7").sources(0)


@pytest.mark.parametrize("location", ["", "nowhere://host/a", "/there/is/nothing"])
def test_what_cannot_be_read_is_refused(location: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read by the sink"):
        Checkpoint(location or "/there/is/nothing/either").query()
