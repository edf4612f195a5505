"""Rows of two topics: cut into pieces, or put in order where they meet. Where keys alone meet, rows of other keys may
change places.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from semel.streams import App, Processor, windows
from semel.streams.dsl.stream import Stream
from semel.streams.topology.record_order import RecordOrder
from semel.streams.worker.blocks import pieces, rounds
from semel.streams.worker.meeting import in_order


def batch(rows: str) -> pa.RecordBatch:
    pairs = rows.split()
    return pa.RecordBatch.from_pydict(
        {"topic": [pair[0] for pair in pairs], "key": [None if pair[1] == "-" else pair[1] for pair in pairs]}
    )


def shown(found: list[pa.RecordBatch]) -> list[str]:
    return [" ".join(f"{row['topic']}{row['key'] or '-'}" for row in piece.to_pylist()) for piece in found]


def cut(rows: str, *, by_key: bool) -> list[str]:
    return shown(pieces(batch(rows), by_key=by_key))


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ("t1 t2 t1", ["t1 t2 t1"]),
        ("t1 s2 t3 s4", ["t1 t3", "s2 s4"]),
        ("t1 s1 t2 s2", ["t1", "s1", "t2", "s2"]),
        ("t1 s2 s1 s1 t3", ["t1", "s2", "s1 s1", "t3"]),
        ("t1 t1 s1 t2 s3 t1", ["t1 t1", "s1 s3", "t2", "t1"]),
        ("s- t1 t- s1", ["s-", "t1", "t-", "s1"]),
    ],
)
def test_pieces_by_key(rows: str, found: list[str]) -> None:
    assert sorted(cut(rows, by_key=True)) == sorted(found)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ("t1 t2 t1", ["t1 t2 t1"]),
        ("t1 s1 t2 s2 t3 s3", ["t1 t2 t3", "s1 s2 s3"]),
        ("t1 s2 s1 s1 t3 t2 t1", ["t1 t3", "s2", "t2", "s1 s1", "t1"]),
        ("s- t1 t- s1", ["s-", "t1", "t-", "s1"]),
    ],
)
def test_rounds_keep_the_order_of_each_key(rows: str, found: list[str]) -> None:
    there = shown(rounds(batch(rows)))
    assert sorted(there) == sorted(found)
    for key in "123-":
        assert [row for row in " ".join(there).split() if row[1] == key] == [
            row for row in rows.split() if row[1] == key
        ]


def test_rows_of_a_table_and_its_stream_go_in_rounds() -> None:
    assert order().in_rounds
    assert not order(again=True).in_rounds
    app = App("counted")
    stream = app.stream("s", key="string", value="json").join(app.table("t", key="string"), lambda one, other: one)
    stream.group_by_key().windowed(windows.tumbling(5)).count()  # late or not is a question of the order
    assert not RecordOrder.of(app.topology.sub_topologies()[0].nodes).in_rounds


def test_pieces_by_topic() -> None:
    assert cut("t1 s2 t3 t4", by_key=False) == ["t1", "s2", "t3 t4"]


def order(*, rekeyed: bool = False, again: bool = False) -> RecordOrder:
    app = App("joined")
    table = app.table("t", key="string", value="json", name="t")
    stream = app.stream("s", key="string", value="json").filter(lambda record: bool(record.value))
    if rekeyed:
        table = stream.merge(table.to_stream()).group_by_key().count("c")
    stream.join(table, lambda value, partner: partner).to("out")
    if again:
        table.to_stream().to("out")
    (part,) = app.topology.sub_topologies()
    return RecordOrder.of(part.nodes)


def test_which_inputs_meet_by_key() -> None:
    assert order().by_key
    assert not order(rekeyed=True).by_key
    assert not order(again=True).by_key


def made(text: str, **columns: list[object]) -> pa.RecordBatch:
    """Return rows by their topics and offsets."""
    words = text.split()
    origin = {"topic": [word[0] for word in words], "offset": [int(word[1:]) for word in words]}
    return pa.RecordBatch.from_pydict({**origin, **columns})


def said(batches: list[pa.RecordBatch]) -> list[str]:
    return [" ".join(f"{row['topic']}{row['offset']}" for row in one.to_pylist()) for one in batches]


ROWS = made("s1 t5 t7 s2 s9 t8")


def test_rows_that_meet_come_in_the_order_of_their_records() -> None:
    assert said(in_order(ROWS, [made("s1 s2 s9"), made("t5 t7 t8")])) == ["s1 t5 t7 s2 s9 t8"]
    assert said(in_order(ROWS, [made("s1 s1 s9"), made("t8")])) == ["s1 s1 s9 t8"]
    assert said(in_order(ROWS, [made(""), made("t8")])) == ["t8"]
    first, second = made("s1 s2", way=[1, 1]), made("s1 s2", way=[2, 2])
    assert [row["way"] for row in in_order(ROWS, [first, second])[0].to_pylist()] == [1, 2, 1, 2]


def test_rows_with_other_columns_or_types_stay_as_they_are() -> None:
    for other in (made("t5 t7", value=[0.5, 1.5]), made("t5 t7", more=[1, 2])):
        assert said(in_order(ROWS, [made("s1 s2", value=[1, 2]), other])) == ["s1", "t5 t7", "s2"]


def meeting(build: Callable[[Stream, Stream], object]) -> bool:
    app = App("meeting")
    build(app.stream("s", key="string", value="json"), app.stream("t", key="string", value="json"))
    return any(RecordOrder.of(part.nodes).meeting for part in app.topology.sub_topologies() if len(part.sources) > 1)


def test_where_inputs_are_put_in_order() -> None:
    assert meeting(lambda s, t: s.filter(bool).merge(t.map_values(bool)).group_by_key().count("c"))
    assert meeting(lambda s, t: s.merge(t.select_key(str)).to("out"))
    assert not meeting(lambda s, t: s.merge(t.map_batches(lambda rows: rows, key="string", value="json")).to("out"))
    assert not meeting(lambda s, t: s.merge(t).process(Processor).to("out"))


def test_inputs_whose_rows_come_to_one_topic_by_two_ways_are_cut() -> None:
    def build(one: Stream, other: Stream) -> None:
        one.merge(other).to("out")
        other.to("out")

    assert not meeting(build)
