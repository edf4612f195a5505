"""Rows of two topics, cut into pieces: where keys alone meet, rows of other keys may change places."""

from __future__ import annotations

import pyarrow as pa
import pytest

from semel.streams import App
from semel.streams.topology.record_order import RecordOrder
from semel.streams.worker.blocks import pieces


def cut(rows: str, *, by_key: bool) -> list[str]:
    pairs = rows.split()
    batch = pa.RecordBatch.from_pydict(
        {"topic": [pair[0] for pair in pairs], "key": [None if pair[1] == "-" else pair[1] for pair in pairs]}
    )
    found = [piece.to_pylist() for piece in pieces(batch, by_key=by_key)]
    return [" ".join(f"{row['topic']}{row['key'] or '-'}" for row in piece) for piece in found]


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
