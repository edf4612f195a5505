"""PostgreSQL's texts as values, and where a position stands. The other types are compared with Debezium's answers."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from semel.connect.connectors.postgres import text_values as texts
from semel.connect.connectors.postgres.pgoutput import decode
from semel.connect.connectors.postgres.position import Position, Session, SnapshotState
from semel.connect.connectors.postgres.selection import Selection
from semel.errors import ConfigError, DataLoss

LISTS = {f"{kind}.{side}.list": () for kind in ("schema", "table", "column") for side in ("include", "exclude")}
NOTHING = {**LISTS, "snapshot.include.collection.list": (), "message.key.columns": ""}


def test_days_are_those_of_the_calendar() -> None:
    for offset in range(-719_162, 2_932_897, 9_973):
        day = date(1970, 1, 1) + timedelta(days=offset)
        assert texts.days(day.isoformat()) == offset
    assert texts.days("0001-12-31 BC") == -719_163
    assert texts.days("5874897-12-31") == 2_145_042_905


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("{}", []),
        ('{1,NULL,"NULL"}', ["1", None, "NULL"]),
        (r'{"a\"b","c\\d","e,f","{g}",""}', ['a"b', r"c\d", "e,f", "{g}", ""]),
        ("[0:1]={1,2}", ["1", "2"]),
    ],
)
def test_arrays(text: str, items: list[object]) -> None:
    assert texts.items(text, str) == items


def test_an_array_of_several_dimensions_is_refused() -> None:
    with pytest.raises(ValueError, match="several dimensions"):
        texts.items("{{1,2},{3,4}}", str)


@pytest.mark.parametrize(
    ("text", "microseconds", "iso"),
    [
        ("00:00:00", 0, "P0Y0M0DT0H0M0S"),
        ("-1 days +02:03:04.5", -79_015_500_000, "P0Y0M-1DT2H3M4.5S"),
        ("-00:00:00.000001", -1, "P0Y0M0DT0H0M-0.000001S"),
        ("1 mon -1 days", 2_543_400_000_000, "P0Y1M-1DT0H0M0S"),
    ],
)
def test_intervals(text: str, microseconds: int, iso: str) -> None:
    assert texts.duration_us(text) == microseconds
    assert texts.iso_duration(text) == iso


def test_hstore_and_money() -> None:
    assert texts.hstore_pairs(r'"a"=>"1", "b\"c"=>NULL, "d"=>"NULL", ""=>"x\\y"') == {
        "a": "1",
        'b"c': None,
        "d": "NULL",
        "": r"x\y",
    }
    assert str(texts.money("-$1,234.50")) == "-1234.50"


def test_what_a_session_saw() -> None:
    session = Session("100:110:102,105", 5000)
    assert session.saw(99, 4000)
    assert session.saw(103, 4000)
    assert not session.saw(102, 4000)
    assert not session.saw(110, 4000)
    assert not session.saw(99, 5001), "it ended later"
    around = Session(f"{2**32 - 5}:{2**32 + 5}:{2**32 + 1}", 5000)
    assert around.saw(2**32 - 6, 1)
    assert around.saw(2, 1)
    assert not around.saw(1, 1)
    assert not around.saw(5, 1)


def test_the_sessions_of_a_table() -> None:
    first, second = Session("1:1:", 10, ("b", ["7"])), Session("2:2:", 20)
    state = SnapshotState(("a", "b", "c"), (first, second), ("b", ["9"]))
    assert [one.seen for one in state.sessions_of("a")] == ["1:1:"]
    assert [(one.seen, one.last) for one in state.sessions_of("b")] == [("1:1:", ("b", ["7"])), ("2:2:", None)]
    assert [one.seen for one in state.sessions_of("c")] == ["2:2:"]
    assert state.sessions_of("new") == []
    assert state.cut() == (first, Session("2:2:", 20, ("b", ["9"])))
    position = Position(5, 8, 3, state)
    assert Position.of(position.offset()) == position


def test_the_offset_of_another_connector_is_refused() -> None:
    with pytest.raises(DataLoss, match="is not one of PostgresCdcSource"):
        Position.of({"lsn": 5})


def test_lists_of_names() -> None:
    chosen = Selection({**NOTHING, "table.include.list": [r"public\.orders.*"], "column.exclude.list": [".*secret"]})
    assert chosen.has_table("PUBLIC", "Orders_2")
    assert not chosen.has_table("public", "old_orders")
    assert not chosen.has_table("pg_catalog", "orders")
    assert not chosen.has_column("public.orders", "secret")
    keys = Selection({**NOTHING, "message.key.columns": "public.orders:a,b;(.*).lines:c"})
    assert keys.message_key("public", "orders") == ["a", "b"]
    assert keys.message_key("other", "lines") == ["c"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"table.include.list": ["a"], "table.exclude.list": ["b"]}, "are both given"),
        ({"table.include.list": ["("]}, "no list of regular expressions"),
        ({"message.key.columns": "orders"}, "is not of the form"),
    ],
)
def test_lists_that_contradict(more: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Selection({**NOTHING, **more})


def test_a_message_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind"):
        decode(b"S")
