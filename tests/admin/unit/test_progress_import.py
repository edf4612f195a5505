"""Checkpoints of Spark's own Kafka source, as Spark 4.3 writes them: where a query stands, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from semel.admin.progress_import import KafkaCheckpoint, read
from semel.errors import ConfigError
from tests.fuzz.mutate import spoilt_bytes, spoilt_json

SETTINGS = '{"batchWatermarkMs":0,"batchTimestampMs":1795374242901,"conf":{"spark.sql.shuffle.partitions":"2"}}'


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def checkpoint(folder: Path, *batches: list[str], committed: int, version: str = "v1") -> Path:
    """One of these batches, of which the first so many are committed."""
    write(folder, "metadata", '{"id":"the-query"}')
    write(folder, "sources/0/0", '\0v1\n{"in":{"0":3,"1":0}}')
    for number, ends in enumerate(batches):
        write(folder, f"offsets/{number}", "\n".join([version, SETTINGS, *ends]))
        write(folder, f"offsets/.{number}.crc", "crc")
    for number in range(committed):
        write(folder, f"commits/{number}", 'v1\n{"nextBatchWatermarkMs":0}')
    return folder


def offsets(**topics: list[int]) -> str:
    return json.dumps(
        {topic: {str(index): offset for index, offset in enumerate(ends)} for topic, ends in topics.items()}
    )


def only(found: KafkaCheckpoint) -> tuple[object, object]:
    (source,) = found.sources
    return source.next, source.planned


def refused(folder: Path | str) -> str | None:
    with pytest.raises(ConfigError, match="Nothing was changed") as raised:
        read(str(folder))
    return raised.value.tag


def test_all_is_committed(tmp_path: Path) -> None:
    found = read(str(checkpoint(tmp_path, [offsets(**{"in": [5, 6]})], [offsets(**{"in": [9, 8]})], committed=2)))
    assert (found.query, found.committed, found.stateful) == ("the-query", 1, False)
    assert only(found) == ({"in": {0: 9, 1: 8}}, {"in": {0: 9, 1: 8}})


def test_numbers_are_compared_as_numbers(tmp_path: Path) -> None:
    batches = [[offsets(**{"in": [number, number]})] for number in range(12)]
    assert only(read(str(checkpoint(tmp_path, *batches, committed=11)))) == (
        {"in": {0: 10, 1: 10}},
        {"in": {0: 11, 1: 11}},
    )


def test_a_batch_is_unfinished(tmp_path: Path) -> None:
    found = read(checkpoint(tmp_path, [offsets(**{"in": [5, 6]})], [offsets(**{"in": [9, 8]})], committed=1).as_uri())
    assert found.committed == 0
    assert only(found) == ({"in": {0: 5, 1: 6}}, {"in": {0: 9, 1: 8}})


def test_nothing_is_committed_yet(tmp_path: Path) -> None:
    found = read(str(checkpoint(tmp_path, [offsets(**{"in": [5, 6]})], committed=0)))
    assert found.committed is None
    assert only(found) == ({"in": {0: 3, 1: 0}}, {"in": {0: 5, 1: 6}})


def test_several_sources_one_of_which_has_only_just_begun(tmp_path: Path) -> None:
    write(tmp_path, "sources/1/0", '\0v1\n{"other":{"0":40}}')
    found = read(
        str(
            checkpoint(
                tmp_path,
                [offsets(**{"in": [5, 6]}), "-"],
                [offsets(**{"in": [5, 6]}), offsets(other=[41])],
                committed=1,
            )
        )
    )
    assert [source.next for source in found.sources] == [{"in": {0: 5, 1: 6}}, {"other": {0: 40}}]
    assert [source.planned for source in found.sources] == [{"in": {0: 5, 1: 6}}, {"other": {0: 41}}]


def test_the_second_version_names_its_sources(tmp_path: Path) -> None:
    lines = [f"0:{offsets(**{'in': [5, 6]})}", f"late:{offsets(other=[1])}"]
    found = read(str(checkpoint(tmp_path, lines, committed=1, version="v2")))
    assert [(source.name, source.next) for source in found.sources] == [
        (None, {"in": {0: 5, 1: 6}}),
        ("late", {"other": {0: 1}}),
    ]


def test_state_is_seen(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, [offsets(**{"in": [5, 6]})], committed=1)
    (folder / "state").mkdir()
    assert read(str(folder)).stateful


def test_what_is_to_be_copied_of_one_elsewhere(tmp_path: Path) -> None:
    """All that is read, and the folder by which state is seen: a copy without it passes for a query that keeps none."""
    with pytest.raises(ConfigError, match="NOT_LOCAL") as found:
        read("s3://bucket/checkpoint")
    for name in ("offsets", "commits", "sources", "state", "metadata"):
        assert f"`{name}`" in found.value.message


def test_what_is_no_checkpoint_of_sparks_source(tmp_path: Path) -> None:
    assert refused(tmp_path) == "NO_CHECKPOINT"
    assert refused(tmp_path / "nowhere") == "NO_CHECKPOINT"
    assert refused("hdfs://namenode/checkpoint") == "NOT_LOCAL"
    semels = '{"cluster": "c", "topics": {"in": {"began": {"0": 0}, "end": {"0": 5}, "id": "x"}}, "v": 1}'
    assert refused(checkpoint(tmp_path / "ours", [semels], committed=1)) == "SEMELS_OWN"
    for number, other in enumerate(
        ["17", '{"path": "file:/in"}', '{"in": {"0": -1}}', '{"in": {"0": true}}', "{}", "no json"]
    ):
        assert refused(checkpoint(tmp_path / str(number), [other], committed=1)) == "NOT_KAFKA", other


def test_topics_may_have_any_name(tmp_path: Path) -> None:
    found = read(str(checkpoint(tmp_path, [offsets(v=[1], topics=[2])], committed=1)))
    assert only(found)[0] == {"v": {0: 1}, "topics": {0: 2}}


def test_what_has_been_lost(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, [offsets(**{"in": [5, 6]})], [offsets(**{"in": [9, 8]})], committed=1)
    (folder / "offsets" / "0").unlink()
    assert refused(folder) == "NO_OFFSETS"
    folder = checkpoint(tmp_path / "begun", [offsets(**{"in": [5, 6]})], committed=0)
    (folder / "sources" / "0" / "0").unlink()
    assert refused(folder) == "NO_OFFSETS"
    assert refused(checkpoint(tmp_path / "long", [f"{'x' * 300}:-"], committed=1, version="v2")) == "NO_OFFSETS"
    assert (
        refused(checkpoint(tmp_path / "empty", [offsets(**{"in": [5]})], committed=1, version="v3"))
        == "CHECKPOINT_VERSION"
    )


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_whatever_stands_there_it_is_read_or_refused(tmp_path: Path, version: str) -> None:
    """Nothing but errors of ours, and no offset that nobody wrote."""
    random = Random(7)
    end, key = offsets(**{"in": [5, 6]}), "0:" if version == "v2" else ""
    folder = checkpoint(tmp_path, [key + end], committed=1, version=version)
    sound = (folder / "offsets" / "0").read_bytes()
    head = sound.removesuffix(end.encode())
    refusals = 0
    for turn in range(500):
        spoilt = spoilt_bytes(random, [sound]) if turn % 2 else head + spoilt_json(random, [end.encode()])
        (folder / "offsets" / "0").write_bytes(spoilt)
        try:
            found = read(str(folder))
        except ConfigError:
            refusals += 1
        else:
            assert all(
                type(offset) is int and offset >= 0
                for source in found.sources
                for row in source.next.values()
                for offset in row.values()
            )
    assert 50 < refusals < 500
