from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from semel.errors import ConfigError
from semel.records import HEADER_SIZE, Batch, Codec, encode, scan
from semel.records.encode import check_rows
from semel.records.varint import longest_size
from tests.records.unit.peer import HEADERS, Row, appended, read

NOW = 1_700_000_000_000
TEXTS = ["", "a", "twelve bytes", "thirteen byte", None, "ü" * 30, "x" * 300]
RAW = [None if text is None else text.encode() for text in TEXTS]


def one(source: Any, **options: Any) -> list[tuple[int, Row]]:
    (batch,) = encode(source, now_ms=NOW, **options)
    return read(b"".join(batch.chunks))


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()],
    ids=str,
)
def test_every_layout_of_text_and_bytes_sliced_and_chunked(kind: pa.DataType) -> None:
    values = pa.array(RAW, pa.binary()).cast(pa.string()).cast(kind)
    expected = [Row(key, value, NOW, []) for key, value in zip(reversed(RAW), RAW, strict=True)]
    keys = pa.array(list(reversed(TEXTS)), pa.string()).cast(kind)
    plain = pa.record_batch({"key": keys, "value": values})
    assert [row for _, row in one(plain)] == expected
    assert [row for _, row in one(plain.slice(2, 4))] == expected[2:6]
    chunked = pa.Table.from_batches([plain.slice(0, 3), plain.slice(3, 0), plain.slice(3)])
    assert [row for _, row in one(chunked)] == expected
    assert [row for _, row in one(chunked.slice(1, 5))] == expected[1:6]


def test_a_null_with_bytes_under_it_is_a_null() -> None:
    hidden = pa.Array.from_buffers(
        pa.binary(),
        2,
        [pa.py_buffer(b"\x02"), pa.py_buffer(b"\0\0\0\0\x10\0\0\0\x14\0\0\0"), pa.py_buffer(b"secret, secret, seen")],
    )
    assert [row.value for _, row in one(pa.record_batch({"value": hidden}))] == [None, b"seen"]


def test_null_columns_absent_columns_and_columns_that_only_place_rows() -> None:
    source = pa.table(
        {
            "value": pa.nulls(2),
            "key": pa.nulls(2),
            "headers": pa.nulls(2),
            "timestamp": pa.nulls(2),
            "partition": [0, 0],
        }
    )
    assert one(source) == [(0, Row(None, None, NOW, [])), (1, Row(None, None, NOW, []))]
    assert one(pa.table({"value": ["x"]})) == [(0, Row(None, b"x", NOW, []))]


@pytest.mark.parametrize(
    "empty", [pa.table({"value": pa.array([], pa.binary())}), pa.table({"value": pa.chunked_array([], pa.string())})]
)
def test_no_rows_no_batches(empty: pa.Table) -> None:
    assert encode(empty) == []


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_timestamps_of_every_unit(unit: str, zone: str | None) -> None:
    moment = datetime(2026, 11, 21, 20, 23, tzinfo=UTC)
    values = (
        pa.array([moment, None], pa.timestamp("us", "UTC"))
        .cast(pa.timestamp(unit, "UTC"))
        .cast(pa.timestamp(unit, zone))
    )
    source = pa.table({"value": ["a", "b", "c"], "timestamp": pa.chunked_array([values.slice(0, 1), values])})
    assert [row.timestamp for _, row in one(source)] == [int(moment.timestamp()) * 1000] * 2 + [NOW]


def test_finer_timestamps_are_cut_off_and_the_latest_one_that_fits_is_kept() -> None:
    def times(values: list[int], kind: pa.DataType) -> list[int]:
        source = pa.table({"value": ["x"] * len(values), "timestamp": pa.array(values, kind)})
        return [row.timestamp for _, row in one(source)]

    assert times([1_999, 0], pa.timestamp("us")) == [1, 0]
    assert times([5, -1, 9_223_372_036_854_775], pa.int64()) == [5, -1, 9_223_372_036_854_775]


@pytest.mark.parametrize(
    ("kind", "value"),
    [(pa.int64(), -2), (pa.int64(), 9_223_372_036_854_776), (pa.timestamp("s"), 2**62), (pa.timestamp("s"), -(2**62))],
)
def test_timestamps_out_of_range_name_the_row(kind: pa.DataType, value: int) -> None:
    source = pa.table({"value": ["a", "b"], "timestamp": pa.array([0, value], pa.int64()).cast(kind)})
    with pytest.raises(ConfigError, match=r"SEMEL_TIMESTAMP_RANGE.*row 1 "):
        encode(source)


def test_the_header_of_a_transactional_batch() -> None:
    source = pa.table({"value": ["a", "b", "c"], "timestamp": pa.array([30, 10, 40], pa.int64())})
    (batch,) = encode(source, producer_id=7, producer_epoch=3, base_sequence=9, transactional=True)
    (header,) = scan(memoryview(b"".join(batch.chunks)))
    assert (header.base_offset, header.last_offset_delta, header.count, header.leader_epoch) == (0, 2, 3, -1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 9)
    assert (header.base_timestamp, header.max_timestamp) == (30, 40)
    assert (header.transactional, header.control, header.log_append_time, header.delete_horizon) == (
        True,
        False,
        False,
        False,
    )
    assert (header.last_offset, header.next_offset, header.size) == (2, 3, batch.size)


def split(count: int, **options: Any) -> list[Batch]:
    return encode(pa.table({"value": ["x" * 100] * count}), max_bytes=HEADER_SIZE + 10 * 110, now_ms=NOW, **options)


def test_sequences_follow_and_wrap() -> None:
    batches = split(35, producer_id=1, producer_epoch=0, base_sequence=2**31 - 12)
    assert [b.count for b in batches] == [10, 10, 10, 5]
    assert [b.base_sequence for b in batches] == [2**31 - 12, 2**31 - 2, 8, 18]
    assert [scan(memoryview(b"".join(b.chunks)))[0].base_sequence for b in batches] == [
        b.base_sequence for b in batches
    ]
    assert {b.base_sequence for b in split(35)} == {-1}


def test_no_batch_is_above_the_limit_and_none_is_much_smaller() -> None:
    chance = random.Random(1)
    source = pa.table({"value": [chance.randbytes(chance.randrange(2000)) for _ in range(2000)]})
    for codec in Codec:
        sizes = [b.size for b in encode(source, max_bytes=10_000, codec=codec)]
        assert max(sizes) <= 10_000
        assert min(sizes[:-1]) > 10_000 - 2_100
        assert sum(b.count for b in encode(source, max_bytes=10_000, codec=codec)) == 2000


@pytest.mark.parametrize("size", [1, 40, 63, 64, 5_000, 9_000])
def test_a_row_that_fits_alone_to_the_byte(size: int) -> None:
    """Sizes around it too, with neighbours whose timestamps and number make the estimate larger than the truth."""
    source = pa.table(
        {
            "value": ["y" * 20] * 200 + ["x" * size] + ["y" * 20],
            "timestamp": pa.array([*range(0, 2010, 10), 10**13], pa.int64()),
        }
    )
    body = 6 + longest_size(size) - 1 + size
    exact = max(HEADER_SIZE + body + longest_size(body), HEADER_SIZE + 27)
    assert sum(b.count for b in encode(source, max_bytes=exact)) == 202
    refusal = (
        rf"SEMEL_RECORD_TOO_LARGE\] row \d+ of those for out-3 \(the first is 0\) takes {exact}"
        rf" bytes.*max\.message\.bytes .* {exact - 1}\."
    )
    with pytest.raises(ConfigError, match=refusal):
        encode(source, max_bytes=exact - 1, where="out-3")


@pytest.mark.parametrize("max_bytes", [-5, 0, 10, HEADER_SIZE, HEADER_SIZE + 6])
def test_a_limit_that_holds_nothing(max_bytes: int) -> None:
    with pytest.raises(ConfigError, match=r"SEMEL_RECORD_TOO_LARGE\] row 0 takes 69 bytes"):
        encode(pa.table({"value": ["x", "y"]}), max_bytes=max_bytes)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
@pytest.mark.parametrize("keyed", [True, False])
def test_a_row_that_fits_when_it_is_compressed(codec: Codec, keyed: bool) -> None:
    """Between others: 5 MB of one letter at the topic's default, which Kafka's own producer sends with this
    max.request.size.
    """
    values = ["a", "x" * 5_000_000, "b"]
    source = pa.table({"value": values} | ({"key": ["k"] * 3} if keyed else {}))
    batches = encode(source, codec=codec, max_bytes=1_048_588, max_record=20_000_000)
    assert [batch.count for batch in batches] == [1, 1, 1]
    assert max(batch.size for batch in batches) <= 1_048_588
    assert [row.value for batch in batches for _, row in read(b"".join(batch.chunks))] == [
        value.encode() for value in values
    ]


@pytest.mark.parametrize("chunks", [1, 2])
def test_a_row_with_a_key_is_named_by_it(chunks: int) -> None:
    """Of Spark's rows nobody knows which was the third of a task; without a key it is named by its number."""
    part = pa.table({"key": [b"k0", b"k\xff1"], "value": [b"x", b"x" * 5_000]})
    source = pa.concat_tables([part] * chunks)[-2:]
    with pytest.raises(ConfigError, match=r"the row with key 'k\\\\xff1' of those for out-0 takes") as refused:
        encode(source, max_bytes=4_000, max_record=4_000, where="out-0")
    assert "raise max.request.size (of a sink: kafka.max.request.size)" in refused.value.message
    with pytest.raises(ConfigError, match=r"row 1 of those for out-0 \(the first is 0\) takes"):
        encode(source.drop_columns(["key"]), max_bytes=4_000, where="out-0")
    late = source.append_column("timestamp", pa.array([0, -9], pa.int64()))
    with pytest.raises(ConfigError, match=r"the timestamp of the row with key 'k\\\\xff1' of those for out-0 is -9 ms"):
        encode(late, where="out-0")
    nameless = pa.array([None, [{"key": None, "value": b"v"}]], HEADERS)
    with pytest.raises(ConfigError, match=r"the row with key 'k\\\\xff1' has a header without a key"):
        encode(source.append_column("headers", nameless))


def test_which_limit_refuses_a_row() -> None:
    chance = random.Random(1)
    source = pa.table({"value": [b"x", chance.randbytes(5_000), b"x" * 9_000]})
    with pytest.raises(
        ConfigError, match=r"row 2 takes 90\d\d bytes .*before compression, and max\.request\.size allows 8000\."
    ):
        encode(source, codec=Codec.ZSTD, max_bytes=8_000, max_record=8_000)
    with pytest.raises(
        ConfigError,
        match=r"row 1 of those for out-0 .*compression\.type=zstd, and max\.message\.bytes of the topic allows 4000\.",
    ) as caught:
        encode(source, codec=Codec.ZSTD, max_bytes=4_000, max_record=20_000, where="out-0")
    assert caught.value.tag == "RECORD_TOO_LARGE"
    with pytest.raises(ConfigError, match=r"row 1 takes 50\d\d bytes as a record batch, and max\.message\.bytes"):
        encode(source, max_bytes=4_000, max_record=20_000)
    assert len(encode(source, codec=Codec.ZSTD, max_bytes=6_000, max_record=20_000)) == 2


@pytest.mark.parametrize(
    ("codec", "limits"), [(Codec.ZSTD, (8_000, 8_000)), (Codec.ZSTD, (4_000, 20_000)), (Codec.NONE, (4_000, 20_000))]
)
def test_rows_are_checked_as_they_are_encoded(codec: Codec, limits: tuple[int, int]) -> None:
    chance = random.Random(1)
    source = pa.table({"value": [b"x", chance.randbytes(5_000), b"x" * 9_000]})
    with pytest.raises(ConfigError) as refused:
        encode(source, codec=codec, max_bytes=limits[0], max_record=limits[1])
    with pytest.raises(ConfigError) as checked:
        check_rows(source, codec=codec, max_bytes=limits[0], max_record=limits[1])
    assert checked.value.message == refused.value.message
    check_rows(source, codec=Codec.ZSTD, max_bytes=6_000, max_record=20_000)
    check_rows(source.slice(0, 0), codec=codec, max_bytes=1, max_record=1)


def test_compression_that_enlarges_is_left_out() -> None:
    (batch,) = encode(pa.table({"value": [random.Random(2).randbytes(500)]}), codec=Codec.GZIP)
    (header,) = scan(memoryview(b"".join(batch.chunks)))
    assert header.codec is Codec.NONE


@pytest.mark.parametrize(
    ("columns", "tag"),
    [
        ({"key": ["a"]}, "VALUE_MISSING"),
        ({"value": [1]}, "COLUMN_TYPE"),
        ({"value": ["a"], "key": [1.5]}, "COLUMN_TYPE"),
        ({"value": ["a"], "timestamp": ["now"]}, "COLUMN_TYPE"),
        ({"value": ["a"], "headers": ["h"]}, "COLUMN_TYPE"),
        ({"value": ["a"], "headers": [[{"name": "n", "value": b""}]]}, "COLUMN_TYPE"),
        ({"value": ["a"], "headers": [[{"key": 5, "value": b""}]]}, "COLUMN_TYPE"),
    ],
)
def test_wrong_columns(columns: dict[str, list[Any]], tag: str) -> None:
    with pytest.raises(ConfigError) as caught:
        encode(pa.table(columns))
    assert caught.value.tag == tag


def test_headers_of_every_list_layout_sliced_chunked_and_null() -> None:
    lists: list[Any] = [
        None,
        [],
        [{"key": "a", "value": b"1"}],
        [{"key": "ä" * 20, "value": None}, {"key": "", "value": b""}],
        None,
        [{"key": "z", "value": b"9" * 99}],
    ]
    expected = [[(h["key"], h["value"]) for h in pairs or []] for pairs in lists]
    for kind in (HEADERS, pa.large_list(HEADERS.value_type)):
        source = pa.table({"value": ["v"] * 6, "headers": pa.array(lists, kind)})
        assert [row.headers for _, row in one(source)] == expected
        parts = pa.concat_tables([source.slice(0, 2), source.slice(2, 3), source.slice(5)])
        assert [row.headers for _, row in one(parts)] == expected
        assert [row.headers for _, row in one(source.slice(2, 3))] == expected[2:5]


def test_a_header_without_a_key_names_its_row() -> None:
    lists = [[{"key": "a", "value": b"1"}], [], [{"key": "a", "value": b"1"}, {"key": None, "value": b"1"}]]
    source = pa.table(
        {"value": ["v"] * 6, "headers": pa.chunked_array([pa.array(lists[:1] * 3, HEADERS), pa.array(lists, HEADERS)])}
    )
    with pytest.raises(ConfigError, match=r"SEMEL_HEADER_KEY\] row 5 "):
        encode(source)
    with pytest.raises(ConfigError, match=r"SEMEL_HEADER_KEY\] row 0 "):
        encode(pa.table({"value": ["v"], "headers": pa.array([[None]], HEADERS)}))


def test_chunks_are_contiguous_bytes() -> None:
    for batch in split(35, codec=Codec.NONE):
        assert all(memoryview(chunk).contiguous and memoryview(chunk).itemsize == 1 for chunk in batch.chunks)
        assert len(appended([batch])) == batch.size
