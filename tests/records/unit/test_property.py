"""Encoder and decoder against kafka-python's, on rows that hypothesis makes up."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import ConfigError
from semel.records import Codec, decode, encode, scan
from semel.records.row_label import RowLabel
from tests.records.unit.peer import Row, appended, read, rows_of, table, written

data = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.sampled_from([0, 12, 13, 62, 63, 64, 127, 128, 200, 8191, 8192]).map(bytes),
    st.sampled_from([11, 12, 13, 57, 58, 300]).map(lambda n: b"\xff\xd6\x01" * n),
)
rows = st.builds(
    Row,
    data,
    data,
    st.one_of(st.just(1_700_000_000_000), st.integers(0, 10**13), st.integers(0, 9_223_372_036_854_775)),
    st.lists(st.tuples(st.text(max_size=8), st.one_of(st.none(), st.binary(max_size=100))), max_size=4),
)


@settings(max_examples=40)
@given(st.lists(rows, min_size=1, max_size=150), st.sampled_from(list(Codec)), st.booleans())
def test_kafka_python_reads_what_we_write(given_rows: list[Row], codec: Codec, headers: bool) -> None:
    source = table(given_rows)
    if not headers:
        source = source.drop_columns(["headers"])
        given_rows = [row._replace(headers=[]) for row in given_rows]
    offset = 0
    for batch in encode(source, codec=codec, max_bytes=20_000):
        assert batch.size <= 20_000
        got = read(b"".join(batch.chunks))
        assert got == [(i, given_rows[offset + i]) for i in range(batch.count)]
        offset += batch.count
    assert offset == len(given_rows)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 300), rows), min_size=1, max_size=150),
    st.sampled_from(list(Codec)),
    st.integers(0, 2**40),
)
def test_we_read_what_kafka_python_writes(steps: list[tuple[int, Row]], codec: Codec, base: int) -> None:
    deltas, delta = [], -1
    for step, row in steps:
        delta += step
        deltas.append((delta, row))
    buffer = memoryview(written(deltas, codec=codec, base=base))
    assert rows_of(decode(buffer, scan(buffer), headers=True)) == [(base + delta, row) for delta, row in deltas]


@settings(max_examples=40)
@given(st.lists(rows, max_size=150), st.sampled_from(list(Codec)), st.integers(9_000, 60_000), st.data())
def test_round_trip_and_offset_range(given_rows: list[Row], codec: Codec, max_bytes: int, draw: st.DataObject) -> None:
    buffer = memoryview(appended(encode(table(given_rows), codec=codec, max_bytes=max_bytes + 9_000), base=100))
    start = draw.draw(st.integers(0, 300))
    end = draw.draw(st.one_of(st.none(), st.integers(0, 300)))
    expected = [
        (100 + i, row) for i, row in enumerate(given_rows) if start <= 100 + i and (end is None or 100 + i < end)
    ]
    assert rows_of(decode(buffer, scan(buffer), start=start, end=end, headers=True)) == expected


@pytest.mark.parametrize("codec", list(Codec))
def test_many_rows_in_many_batches(codec: Codec) -> None:
    """More than one window and group, and offset deltas of one to three bytes."""
    values = [b"%d" % i * (1 + i % 40) for i in range(30_000)]
    source = pa.table({"value": pa.array(values, pa.binary())})
    for max_bytes in (4_096, 1 << 24):
        buffer = memoryview(appended(encode(source, codec=codec, max_bytes=max_bytes)))
        decoded = decode(buffer, scan(buffer))
        assert decoded["value"].to_pylist() == values
        assert decoded["offset"].to_pylist() == list(range(30_000))
        assert decoded["key"].null_count == 30_000


blocks = st.builds(lambda letter, size: letter * size, st.sampled_from([b"x", b"\x00", b"ab"]), st.integers(0, 4_000))
loose = st.builds(
    Row, st.one_of(st.none(), blocks), st.one_of(st.binary(max_size=800), blocks), st.integers(0, 10**13), st.just([])
)


@settings(max_examples=60)
@given(
    st.lists(loose, min_size=1, max_size=30),
    st.sampled_from(list(Codec)),
    st.integers(600, 9_000),
    st.integers(600, 9_000),
)
def test_a_row_is_refused_by_its_own_size_or_by_that_of_its_batch(
    given_rows: list[Row], codec: Codec, batch: int, record: int
) -> None:
    """Against one batch of each row alone, without limits: what is refused is beyond one of them, and what is not is
    within both.
    """
    source = table(given_rows).drop_columns(["headers"])
    alone = [source.slice(i, 1) for i in range(len(given_rows))]
    plain = [encode(row)[0].size for row in alone]
    packed = [encode(row, codec=codec)[0].size for row in alone]
    beyond = [i for i in range(len(alone)) if plain[i] > record or packed[i] > batch]
    if beyond:
        named = RowLabel(source)
        with pytest.raises(ConfigError, match="|".join(re.escape(f"{named(i)} ") for i in beyond)):
            encode(source, codec=codec, max_bytes=batch, max_record=record)
        return
    batches = encode(source, codec=codec, max_bytes=batch, max_record=record)
    assert all(one.size <= batch for one in batches)
    buffer = memoryview(appended(batches))
    assert rows_of(decode(buffer, scan(buffer))) == list(enumerate(given_rows))
