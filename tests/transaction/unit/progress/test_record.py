"""The progress record, and how it is settled (PROTOCOL 1)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import DataLoss, Unsupported
from semel.read.raw_log import EndMarker, LogRecord
from semel.transaction.progress.log import ProgressLog, ProgressRecord, parse_progress_log
from semel.transaction.progress.record import (
    KafkaSource,
    OpaqueSource,
    Progress,
    TopicEnd,
    claim_key,
    claim_value,
    decided_key,
    is_progress_key,
    progress_key,
)

KEY = progress_key("orders-out", "query")
NUMBERS = st.integers(0, 2**40)
NAMES = st.text(max_size=8)
OFFSETS = st.dictionaries(st.integers(0, 99), NUMBERS, max_size=3)
KAFKA = st.builds(
    KafkaSource, NAMES, st.dictionaries(NAMES, st.builds(TopicEnd, NAMES, OFFSETS), max_size=3), st.none() | NAMES
)
SOURCES = st.lists(KAFKA | st.builds(OpaqueSource, NAMES, st.none() | NAMES), max_size=3).map(tuple)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | NAMES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
)
KNOWN = {"v", "query", "run", "batch", "sources", "wrote", "groups", "outputs", "moved"}
PROGRESS = st.builds(
    Progress,
    query=st.none() | NAMES,
    run=st.none() | NAMES,
    batch=st.none() | NUMBERS,
    sources=SOURCES,
    wrote=st.dictionaries(
        NAMES, st.dictionaries(st.integers(0, 99), st.tuples(NUMBERS, NUMBERS), max_size=3), max_size=3
    ),
    outputs=st.dictionaries(NAMES, NAMES, max_size=3),
    moved=st.none() | NAMES,
    extra=st.dictionaries(NAMES.filter(lambda name: name not in KNOWN), JSON, max_size=3),
)


# ---- its form


@given(PROGRESS)
def test_round_trip(progress: Progress) -> None:
    assert Progress.decode(progress.encode(), "here") == progress


@given(PROGRESS)
def test_its_text_is_canonical(progress: Progress) -> None:
    text = progress.encode()
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")).encode()
    assert Progress.decode(text, "here").encode() == text


def test_the_documented_form() -> None:
    text = (
        b'{"batch":41,"query":"q","run":"r","sources":[{"cluster":"c","topics":{"in":{"end":{"0":42},"id":"i"}}},{"text":"rate@7"}],'
        b'"v":1,"wrote":{"out":{"0":[5,9]}}}'
    )
    progress = Progress(
        "q", "r", 41, (KafkaSource("c", {"in": TopicEnd("i", {0: 42})}), OpaqueSource("rate@7")), {"out": {0: (5, 9)}}
    )
    assert progress.encode() == text
    assert Progress.decode(text, "here") == progress


def test_where_a_query_began_is_kept_and_not_compared() -> None:
    began = Progress("q", "r", 41, (KafkaSource("c", {"in": TopicEnd("i", {0: 42}, {0: 7})}),))
    text = began.encode()
    assert b'"in":{"began":{"0":7},"end":{"0":42},"id":"i"}' in text
    (source,) = Progress.decode(text, "here").sources
    assert isinstance(source, KafkaSource)
    assert source.topics["in"].began == {0: 7}
    assert source == KafkaSource("c", {"in": TopicEnd("i", {0: 42})})


def test_keys_have_the_shape_of_connects_offsets() -> None:
    assert progress_key("orders-out", "query") == b'["orders-out",{"scope":"query"}]'
    assert claim_key("orders-out") == b'["orders-out",{"scope":"claim"}]'
    assert (
        len({progress_key(prefix, scope) for prefix in ("a", "b") for scope in ("query", "batch", "producer", "claim")})
        == 8
    )


def test_unknown_keys_survive_a_rewrite() -> None:
    read = Progress.decode(b'{"v":1,"batch":3,"later":{"a":[1,null]},"sources":[],"wrote":{}}', "here")
    assert json.loads(replace(read, batch=4).encode())["later"] == {"a": [1, None]}


@pytest.mark.parametrize("version", [0, 3, "1", None, [1], 2.0])
def test_an_unknown_version_is_refused(version: object) -> None:
    with pytest.raises(Unsupported, match=r"progress-3 offset 7 has version"):
        Progress.decode(json.dumps({"v": version, "anything": 1}).encode(), "progress-3 offset 7")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b"not json",
        b'{"v":1',
        b"null",
        b"7",
        b"[]",
        b'"v"',
        b"{}",
        b'{"batch":1}',
        b'{"v":1,"sources":null}',
        b'{"v":1,"sources":[7]}',
        b'{"v":1,"sources":[{}]}',
        b'{"v":1,"sources":[{"text":7}]}',
        b'{"v":1,"sources":[{"cluster":"c","topics":{"in":{"id":"i","end":{"x":1}}}}]}',
        b'{"v":1,"sources":[{"cluster":"c","topics":{"in":{"id":"i"}}}]}',
        b'{"v":1,"wrote":{"out":{"0":[1]}}}',
        b'{"v":1,"wrote":{"out":[1]}}',
        b'{"v":1,"batch":"many"}',
        b'{"v":1,"batch":1.5}',
        b'{"v":1,"query":7}',
        b'{"v":1,"moved":["x"]}',
    ],
)
def test_what_is_damaged_stops_and_says_where(text: bytes) -> None:
    with pytest.raises(DataLoss, match=r"progress-3 offset 7") as raised:
        Progress.decode(text, "progress-3 offset 7")
    assert raised.value.tag == "PROGRESS_DAMAGED"


# ---- how it is settled


def record(
    offset: int, producer: int, epoch: int = 0, batch: int = 0, key: bytes = KEY, transactional: bool = True
) -> LogRecord:
    return LogRecord(offset, producer, epoch, transactional, key, Progress(batch=batch).encode())


def outcomes(*events: LogRecord | EndMarker) -> list[bool | None]:
    return [found.committed for found in parse_progress_log(events, KEY, "here").records]


def test_a_claim_of_a_newer_version_is_refused_wherever_it_stands() -> None:
    """It may mean something else there, and one of this version in front of it speaks of another time."""
    claims = [
        LogRecord(number, -1, -1, False, claim_key("orders-out"), value)
        for number, value in enumerate([claim_value(0), b'{"v":3,"begins":0}'])
    ]
    with pytest.raises(Unsupported, match="here offset 1 has version 3"):
        parse_progress_log(claims, KEY, "here")
    assert parse_progress_log(claims[:1], KEY, "here") == ProgressLog(())


def test_a_record_without_a_marker_is_open() -> None:
    settled = parse_progress_log([record(0, 1)], KEY, "here")
    assert settled.records == settled.open == (ProgressRecord(0, 1, 0, Progress(batch=0), None),)
    assert settled.newest is None


@pytest.mark.parametrize("epoch", [3, 4, 9, 0])
@pytest.mark.parametrize("commit", [True, False])
def test_the_next_marker_of_the_producer_id_settles_whatever_its_epoch(epoch: int, commit: bool) -> None:
    assert outcomes(record(0, 1, epoch=3), EndMarker(1, 1, epoch, commit)) == [commit]


def test_markers_of_other_producers_and_markers_in_front_settle_nothing() -> None:
    assert outcomes(EndMarker(0, 1, 0, True), record(1, 1), EndMarker(2, 2, 0, True)) == [None]


def test_only_the_first_marker_behind_it_counts() -> None:
    assert outcomes(record(0, 1), EndMarker(1, 1, 1, False), EndMarker(2, 1, 2, True)) == [False]


def test_one_marker_settles_all_that_is_open_of_its_producer() -> None:
    """A lost marker: what two transactions left open is settled by the end of the second."""
    assert outcomes(record(0, 1, 0), record(1, 1, 1), record(2, 2, 0), EndMarker(3, 1, 2, False)) == [
        False,
        False,
        None,
    ]


def test_the_newest_is_the_last_committed_record_by_offset() -> None:
    events: list[LogRecord | EndMarker] = [
        record(0, 1, batch=1),
        record(1, 2, batch=2),
        EndMarker(2, 2, 1, True),
        EndMarker(3, 1, 1, True),
        record(4, 3, batch=3),
        EndMarker(5, 3, 0, False),
    ]
    newest = parse_progress_log(events, KEY, "here").newest
    assert newest is not None
    assert newest.progress.batch == 2


def test_plain_records_and_other_keys_are_passed_over() -> None:
    events: list[LogRecord | EndMarker] = [
        record(0, -1, -1, transactional=False),
        record(1, 1, key=progress_key("orders-out", "batch")),
        record(2, 1, key=claim_key("orders-out")),
        LogRecord(3, 1, 0, True, None, b"{}"),
        LogRecord(4, -1, -1, False, KEY, None),
        record(5, 1, batch=7),
        EndMarker(6, 1, 0, True),
    ]
    assert [found.offset for found in parse_progress_log(events, KEY, "here").records] == [5]


def test_a_tombstone_forgets_once_it_is_committed() -> None:
    before: list[LogRecord | EndMarker] = [record(0, 1, batch=7), EndMarker(1, 1, 0, True)]
    tombstone = LogRecord(2, 1, 1, True, KEY, None)

    def newest(*events: LogRecord | EndMarker) -> tuple[int | None, bool]:
        settled = parse_progress_log([*before, *events], KEY, "here")
        return settled.newest.progress.batch if settled.newest else None, settled.forgotten

    assert newest(tombstone) == (7, False)
    assert parse_progress_log([*before, tombstone], KEY, "here").open[0].progress.wrote == {}
    assert newest(tombstone, EndMarker(3, 1, 1, False)) == (7, False)
    assert newest(tombstone, EndMarker(3, 1, 1, True)) == (None, True)
    assert newest(tombstone, EndMarker(3, 1, 1, True), record(4, 1, 2, batch=0), EndMarker(5, 1, 2, False)) == (
        None,
        True,
    )
    assert newest(tombstone, EndMarker(3, 1, 1, True), record(4, 1, 2, batch=0), EndMarker(5, 1, 2, True)) == (0, False)


def test_damage_under_another_key_is_not_ours_and_under_our_key_it_stops() -> None:
    assert outcomes(LogRecord(0, 1, 0, True, b"theirs", b"damaged")) == []
    with pytest.raises(DataLoss, match="progress-3 offset 9"):
        parse_progress_log([LogRecord(9, 1, 0, True, KEY, b"damaged")], KEY, "progress-3")


def test_how_a_transaction_ended_is_told_by_its_own_identity() -> None:
    settled = parse_progress_log(
        [record(0, 1, 4), EndMarker(1, 1, 5, True), record(2, 1, 5), EndMarker(3, 1, 6, False), record(4, 1, 6)],
        KEY,
        "here",
    )
    assert [settled.outcome_of(1, epoch) for epoch in (4, 5, 6, 7)] == [True, False, None, None]
    assert settled.outcome_of(2, 4) is None


@st.composite
def journals(draw: st.DrawFn) -> list[LogRecord | EndMarker]:
    events: list[LogRecord | EndMarker] = []
    for offset in range(draw(st.integers(0, 25))):
        producer, epoch = draw(st.integers(1, 3)), draw(st.integers(0, 3))
        kind = draw(st.sampled_from(["record", "other", "plain", "claim", "commit", "abort"]))
        if kind in ("commit", "abort"):
            events.append(EndMarker(offset, producer, epoch, kind == "commit"))
        elif kind == "plain":
            events.append(record(offset, -1, -1, transactional=False))
        else:
            key = {"record": KEY, "other": progress_key("orders", "query"), "claim": claim_key("orders-out")}[kind]
            events.append(record(offset, producer, epoch, batch=offset, key=key))
    return events


def naive(events: list[LogRecord | EndMarker]) -> list[tuple[int, bool | None]]:
    found: list[tuple[int, bool | None]] = []
    for event in events:
        if isinstance(event, LogRecord) and event.key == KEY and event.transactional:
            behind: list[Any] = [
                e
                for e in events
                if isinstance(e, EndMarker) and e.producer_id == event.producer_id and e.offset > event.offset
            ]
            found.append((event.offset, min(behind, key=lambda e: e.offset).commit if behind else None))
    return found


@given(journals())
def test_like_a_naive_reader(events: list[LogRecord | EndMarker]) -> None:
    settled = parse_progress_log(events, KEY, "here")
    expected = naive(events)
    assert [(found.offset, found.committed) for found in settled.records] == expected
    assert [found.offset for found in settled.open] == [offset for offset, committed in expected if committed is None]
    committed = [offset for offset, committed in expected if committed]
    assert (settled.newest.offset if settled.newest else None) == (committed[-1] if committed else None)


@pytest.mark.parametrize(
    "text",
    [
        b'{"v":1,"a":' * 50_000,
        b'{"v":1,"sources":[{"cluster":[],"topics":{}}]}',
        b'{"v":1,"sources":[{"cluster":"c","topics":{"in":{"id":"t","end":{"0":4.5}}}}]}',
        b'{"v":1,"sources":[{"cluster":"c","topics":{"in":{"id":"t","end":{"0":1e999}}}}]}',
        b'{"v":1,"wrote":{"out":{"0":["1",true]}}}',
    ],
    ids=lambda text: text[:40].decode(),
)
def test_values_of_other_kinds_are_damage(text: bytes) -> None:
    """Found by the fuzzers: they were taken as they came, rounded, or ended in an error of Python's own."""
    with pytest.raises(DataLoss) as raised:
        Progress.decode(text, "semel-progress-3 offset 7")
    assert raised.value.tag == "PROGRESS_DAMAGED"


@pytest.mark.parametrize("scope", ["query", "claim", "look", "mirror"])
def test_a_key_of_progress_is_known(scope: str) -> None:
    assert is_progress_key(progress_key("orders", scope))
    assert is_progress_key(decided_key("orders", "me"))


@pytest.mark.parametrize("key", [None, b"", b"orders", b"[]", b'["lines",{"filename":"a"}]', b'["a","scope"]', b"\xff"])
def test_a_key_of_others_is_none_of_progress(key: bytes | None) -> None:
    assert not is_progress_key(key)


def test_of_sources_that_read_one_partition_the_lowest_position_counts() -> None:
    one = KafkaSource("c", {"in": TopicEnd("id", {0: 7, 1: 3})})
    two = KafkaSource("c", {"in": TopicEnd("id", {0: 5, 1: 4}), "more": TopicEnd("other", {0: 1})})
    three = KafkaSource("d", {"in": TopicEnd("id", {0: 2})})
    both = Progress(sources=(one, OpaqueSource("files"), two))
    assert both.positions() == {("in", 0): 5, ("in", 1): 3, ("more", 0): 1}
    assert both.positions(ids={"in": "id", "more": "anew"}) == {("in", 0): 5, ("in", 1): 3}
    assert Progress(sources=(one, three)).positions("c") == {("in", 0): 7, ("in", 1): 3}
    assert Progress(batch=3).positions() == {}
