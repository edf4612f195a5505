"""Runs of offsets: made from what was written, packed, and asked for the next record, both ways."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from semel.errors import DataLoss
from semel.mirror.copy import Piece
from semel.mirror.offsets.segments import Form, Runs, Segments, read_form, write_forms
from semel.mirror.positions import OffsetAndEpoch, Positions

NO_BYTES = memoryview(b"")
AT = ("t", 0)


def runs(*rows: tuple[int, int, int]) -> Runs:
    return Runs(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


def rows(found: Runs) -> list[tuple[int, ...]]:
    return list(zip(found.source.tolist(), found.target.tolist(), found.count.tolist(), strict=True))


def positions(at: OffsetAndEpoch) -> Positions:
    return Positions("cluster", "default.", {"t": "id"}, {"t": ("A.t", "other")}, {AT: at}, 7)


def segments(*parts: Runs) -> Segments:
    found = Segments()
    for part in parts:
        found.add({AT: part})
    return found


def test_runs_are_joined_where_both_sides_go_on() -> None:
    pieces = [Piece(NO_BYTES, 10, 5), Piece(NO_BYTES, 15, 2), Piece(NO_BYTES, 20, 3), Piece(NO_BYTES, 23, 1)]
    assert rows(Runs.of_pieces(pieces, [100, 105, 107, 111])) == [(10, 100, 7), (20, 107, 3), (23, 111, 1)]


def test_gaps_inside_a_batch() -> None:
    offsets = np.array([3, 4, 7, 8, 9, 20], np.int64)
    assert rows(Runs.of_pieces([Piece(NO_BYTES, 3, 6, offsets)], [50])) == [(3, 50, 2), (7, 52, 3), (20, 55, 1)]
    assert rows(Runs.of_pieces([], [])) == []


def test_what_is_packed_is_unpacked() -> None:
    random.seed(1)
    for _ in range(50):
        source = target = 0
        made = []
        for _ in range(random.randint(0, 30)):
            source, target = source + random.randint(0, 9), target + random.randint(0, 9)
            count = random.randint(1, 1 << random.randint(0, 40))
            made.append((source, target, count))
            source, target = source + count, target + count
        found = runs(*made) if made else Runs.none()
        assert rows(Runs.unpacked(found.packed())) == made
    for wrong in ([1, 2], [1, 2, 0], [1, -2, 3], [1, 2, True], ["1", 2, 3]):
        with pytest.raises((ValueError, TypeError)):
            Runs.unpacked(wrong)  # type: ignore[arg-type]


def test_the_next_record_is_the_same() -> None:
    """Against a list of all records: source offset, target offset."""
    random.seed(2)
    for _ in range(30):
        source, target = random.randint(0, 50), random.randint(0, 50)
        records = []
        for _ in range(random.randint(1, 60)):
            source, target = source + random.choice([1, 1, 1, 3]), target + random.choice([1, 1, 1, 2])
            records.append((source, target))
        found = runs(*((s, t, 1) for s, t in records)).joined()
        at = positions(OffsetAndEpoch(source + 5, target=target + 1))
        held = segments(found)
        for offset in range(records[0][0], source + 5):
            wanted = next((t for s, t in records if s >= offset), target + 1)
            told = held.forward(at, AT, offset, {})
            assert told is not None
            assert (told.topic, told.offset, told.note) == ("A.t", wanted, "")
        for offset in range(records[0][1], target + 1):
            told = held.backward(at, ("A.t", 0), offset, {})
            assert told is not None
            assert (told.topic, told.offset) == ("t", next(s for s, t in records if t >= offset))


def test_where_it_is_not_the_same_it_says_so() -> None:
    held, at = segments(runs((10, 100, 5)), runs((17, 106, 3))), positions(OffsetAndEpoch(25, target=109))
    told = [held.forward(at, AT, offset, {("A.t", 0): 40}) for offset in (9, 10, 15, 24, 25, 26)]
    assert [(one.offset, one.note.partition(":")[0]) for one in told if one] == [
        (40, "older than what is known"),
        (100, ""),
        (106, ""),
        (109, ""),
        (109, ""),
        (109, "ahead of the mirror"),
    ]
    kept = held.forward(at, AT, 3, {("A.t", 0): 100})
    assert kept is not None
    assert (kept.offset, kept.note) == (100, "")  # nothing before is there any more
    assert held.forward(at, ("other", 0), 3, {}) is None
    behind = [held.backward(at, ("A.t", 0), offset, {}) for offset in (109, 200)]
    assert [(one.offset, one.note) for one in behind if one] == [(25, ""), (25, "")]


def test_without_any_run_the_newest_pair_holds() -> None:
    at = positions(OffsetAndEpoch(25, target=109))
    told = [Segments().forward(at, AT, offset, {("A.t", 0): 7}) for offset in (25, 24)]
    assert [(one.offset, bool(one.note)) for one in told if one] == [(109, False), (7, True)]


def test_many_rounds_are_joined() -> None:
    made = [(3 * i, 2 * i, 1) for i in range(2500)]
    held = segments(*map(runs, made))
    assert len(held.runs[AT]) <= 1000
    assert rows(held.of(AT)) == made


def test_the_form_is_cut_and_filtered() -> None:
    at = positions(OffsetAndEpoch(1))
    many = runs(*((3 * i, 2 * i, 1) for i in range(45_000)))
    texts = write_forms(at, {AT: many})
    assert len(texts) == 3
    found = [read_form(text, at, "a flow").runs[AT] for text in texts]
    assert [row for part in found for row in rows(part)] == rows(many)
    other = Positions("cluster", "default.", {"t": "made again"}, {"t": ("A.t", "other")}, {})
    assert read_form(texts[0], other, "a flow") == Form({})
    assert json.loads(write_forms(at, {AT: runs((5, 6, 7))})[0]) == {
        "round": 7,
        "topics": {"t": {"id": "id", "runs": {"0": [5, 6, 7]}, "target": ["A.t", "other"]}},
        "v": 1,
    }
    for wrong in (b"{}", b'{"v":2}', texts[0].replace(b'"0":[', b'"0":["x",'), b"\xff"):
        with pytest.raises(DataLoss, match="SEGMENTS_DAMAGED"):
            read_form(wrong, at, "a flow")


def test_a_flow_that_was_adopted_at_an_earlier_offset_has_its_new_runs() -> None:
    found = segments(runs((0, 0, 10), (12, 20, 10)), runs((22, 31, 10)))
    found.add({AT: runs((15, 45, 5))})
    assert rows(found.of(AT)) == [(0, 0, 10), (12, 20, 3), (15, 45, 5)]
    assert rows(runs((0, 5, 3), (7, 9, 2)).before(8)) == [(0, 5, 3), (7, 9, 1)]


@pytest.mark.parametrize(
    ("later", "wanted"),
    [
        pytest.param(runs((10, 30, 5)), [(0, 0, 10), (10, 30, 5)], id="it continues"),
        pytest.param(runs((8, 40, 5)), [(0, 0, 8), (8, 40, 5)], id="it overlaps"),
        pytest.param(runs((20, 30, 5)), [(20, 30, 5)], id="another program has copied in between"),
        pytest.param(Runs.none(), [], id="nothing is known"),
    ],
)
def test_runs_before_an_adoption(later: Runs, wanted: list[tuple[int, int, int]]) -> None:
    at = positions(OffsetAndEpoch(30, target=60))
    (text,) = write_forms(at, {AT: later}, adopted=True)
    form = read_form(text, at, "a flow")
    assert form.adopted == {AT}
    found = segments(runs((0, 0, 10)))
    found.add(form.runs, form.adopted)
    assert rows(found.of(AT)) == wanted
    assert rows(segments(runs((0, 0, 10)), runs((20, 30, 5))).of(AT))[0] == (0, 0, 10)  # a gap of the source
