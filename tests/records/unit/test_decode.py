from __future__ import annotations

import pyarrow as pa
import pytest

from semel.records import Codec, decode, encode, scan
from tests.records.unit.peer import Row, appended, changed, rows_of, table, written

ROWS = [Row(b"k%d" % i if i % 3 else None, b"value %d" % i if i % 5 else None, 1000 + i, []) for i in range(20)]


def test_the_schema_and_no_batches() -> None:
    plain = decode(memoryview(b""), [])
    assert plain.schema.equals(
        pa.schema(
            {
                "key": pa.binary(),
                "value": pa.binary(),
                "offset": pa.int64(),
                "timestamp": pa.timestamp("us", "UTC"),
                "timestampType": pa.int32(),
            }
        )
    )
    headers = pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    assert decode(memoryview(b""), [], headers=True).schema.equals(plain.schema.append(headers))


def test_log_append_time_takes_the_time_of_the_batch() -> None:
    create = written(enumerate(ROWS))
    append = changed(create, log_append_time=True, max_timestamp=5_000, base_offset=20)
    buffer = memoryview(create + append)
    decoded = decode(buffer, scan(buffer))
    assert decoded["timestampType"].to_pylist() == [0] * 20 + [1] * 20
    times = decoded["timestamp"].cast(pa.int64()).to_pylist()
    assert times == [(1000 + i) * 1000 for i in range(20)] + [5_000_000] * 20


def test_a_delete_horizon_does_not_move_timestamps() -> None:
    buffer = memoryview(changed(written(enumerate(ROWS)), delete_horizon=True))
    assert scan(buffer)[0].delete_horizon
    assert [row for _, row in rows_of(decode(buffer, scan(buffer)))] == ROWS


def test_compacted_and_empty_batches_among_others() -> None:
    thinned = written([(3, ROWS[0]), (7, ROWS[1])], base=100)
    thinned = changed(thinned, last_offset_delta=9)
    empty = changed(written([(0, ROWS[0])], base=110), body=b"", count=0, last_offset_delta=4)
    whole = written(enumerate(ROWS), base=115)
    buffer = memoryview(thinned + empty + whole)
    headers = scan(buffer)
    assert [(h.base_offset, h.last_offset, h.count) for h in headers] == [(100, 109, 2), (110, 114, 0), (115, 134, 20)]
    expected = [(103, ROWS[0]), (107, ROWS[1]), *((115 + i, row) for i, row in enumerate(ROWS))]
    assert rows_of(decode(buffer, headers)) == expected
    assert rows_of(decode(buffer, headers, start=104, end=116)) == expected[1:3]
    assert rows_of(decode(buffer, [headers[2], headers[0]])) == expected[2:] + expected[:2]


def test_only_the_batches_that_were_asked_for_are_read() -> None:
    """What lies between, damaged or control, is not touched; in place and joined."""
    parts = [written(enumerate(ROWS), base=base) for base in (0, 20, 40)]
    for middle in (parts[1][:-3] + b"!!!", parts[1] * 5):
        buffer = memoryview(parts[0] + middle + parts[2])
        headers = scan(buffer)
        decoded = decode(buffer, [headers[0], headers[-1]])
        assert decoded["offset"].to_pylist() == [*range(20), *range(40, 60)]


def test_batches_of_different_codecs_in_one_buffer() -> None:
    source = table([row._replace(value=b"compressible " * 9) for row in ROWS])
    buffer = memoryview(b"".join(appended(encode(source, codec=codec), base=20 * codec) for codec in Codec))
    headers = scan(buffer)
    assert [h.codec for h in headers] == list(Codec)
    decoded = decode(buffer, headers)
    assert decoded["offset"].to_pylist() == list(range(100))
    assert set(decoded["value"].to_pylist()) == {b"compressible " * 9}


def test_the_result_does_not_hang_on_the_buffer() -> None:
    buffer = bytearray(written(enumerate(ROWS)))
    decoded = decode(memoryview(buffer), scan(memoryview(buffer)))
    buffer[:] = bytes(len(buffer))
    assert [row for _, row in rows_of(decoded)] == ROWS


def test_header_keys_that_are_not_utf8_are_read_as_java_reads_them() -> None:
    row = ROWS[1]._replace(headers=[("né", b"x"), ("ok", None)])
    batch = written([(0, row)])
    broken = changed(batch, body=batch[61:].replace("né".encode(), b"n\xff\xfe"))
    assert decode(memoryview(broken), scan(memoryview(broken)), headers=True)["headers"].to_pylist() == [
        [{"key": "n\ufffd\ufffd", "value": b"x"}, {"key": "ok", "value": None}]
    ]


@pytest.mark.parametrize("many", [1, 40])
def test_records_with_very_many_headers(many: int) -> None:
    rows = [
        ROWS[1]._replace(headers=[(f"h{i}", b"%d" % i) for i in range(300 * (index < many))]) for index in range(60)
    ]
    buffer = memoryview(written(enumerate(rows)))
    assert rows_of(decode(buffer, scan(buffer), headers=True)) == list(enumerate(rows))
    assert rows_of(decode(buffer, scan(buffer))) == [(i, row._replace(headers=[])) for i, row in enumerate(rows)]


def test_control_batches_are_the_callers_to_leave_out() -> None:
    buffer = memoryview(changed(written([(0, ROWS[1])]), control=True))
    with pytest.raises(ValueError, match="control batches"):
        decode(buffer, scan(buffer))
