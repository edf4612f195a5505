"""Timestamps that Kafka holds and microseconds do not: sound records, which are named or read with a null."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import ConfigError
from semel.records import decode, scan
from semel.records.timestamps import LATEST
from tests.records.unit.peer import Row, changed, written

NANOSECONDS = 1_700_000_000_000_000_000


def one_batch(times: list[int], base: int = 0) -> memoryview:
    return memoryview(written(enumerate(Row(b"k", b"v%d" % i, time, []) for i, time in enumerate(times)), base=base))


def test_nanoseconds_are_named_with_their_record() -> None:
    buffer = one_batch([5, 6, NANOSECONDS, 7], base=40)
    with pytest.raises(
        ConfigError, match=rf"record at offset 42 of in-3 is {NANOSECONDS} ms.*sound.*timestampOverflow=null"
    ) as caught:
        decode(buffer, scan(buffer), where="in-3")
    assert caught.value.tag == "TIMESTAMP_OVERFLOW"
    assert decode(buffer, scan(buffer), end=42)["offset"].to_pylist() == [40, 41]
    assert decode(buffer, scan(buffer), start=43)["offset"].to_pylist() == [43]


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(st.integers(0, 10**13), st.sampled_from([LATEST, LATEST + 1, NANOSECONDS, 2**63 - 1])),
        min_size=1,
        max_size=20,
    )
)
def test_with_null_every_other_timestamp_is_right(times: list[int]) -> None:
    buffer = one_batch(times)
    held = [time if time <= LATEST else None for time in times]
    decoded = decode(buffer, scan(buffer), timestamp_overflow="null")
    decoded.validate(full=True)
    found = decoded["timestamp"].cast("int64").to_pylist()
    assert found == [None if time is None else time * 1000 for time in held]
    assert decoded["value"].to_pylist() == [b"v%d" % i for i in range(len(times))]


@pytest.mark.parametrize("base", [2**62, 2**63 - 1, -(2**63)])
def test_a_sum_that_wraps_does_not_pass_for_a_time(base: int) -> None:
    buffer = memoryview(changed(bytes(one_batch([1, 2, 3])), base_timestamp=base))
    with pytest.raises(ConfigError, match="TIMESTAMP_OVERFLOW"):
        decode(buffer, scan(buffer))
    assert decode(buffer, scan(buffer), timestamp_overflow="null")["timestamp"].null_count == 3


def test_the_time_of_the_broker_is_right_whatever_the_producer_gave() -> None:
    buffer = memoryview(
        changed(bytes(one_batch([NANOSECONDS, 2])), log_append_time=True, max_timestamp=1_700_000_000_000)
    )
    assert decode(buffer, scan(buffer))["timestamp"].cast("int64").to_pylist() == [1_700_000_000_000_000] * 2
