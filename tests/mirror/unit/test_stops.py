"""What is stopped, what is tried again, and whose fault an error is."""

from __future__ import annotations

import pytest

from semel.errors import AbortAndRetry, ConfigError, DataLoss, Fenced, SemelError
from semel.mirror.stops import WHOLE_TOPIC, Stop, Stops, explained, names_source, stops_a_partition

ORDERS, WHOLE = ("orders", 0), ("eu", WHOLE_TOPIC)
TOO_LARGE = ConfigError("too large", tag="RECORD_TOO_LARGE").at(ORDERS)


def test_what_is_stopped_before_is_tried_at_once() -> None:
    stops = Stops({ORDERS: Stop("RECORD_TOO_LARGE", "too large"), WHOLE: Stop("TARGET_GONE", "gone")})
    assert not stops.topic_is_out("eu")
    assert stops.next_trial([("other", 0)]) is None
    assert stops.next_trial([ORDERS]) == ORDERS
    assert not stops.add(ORDERS, TOO_LARGE), "as before"
    assert stops.next_trial([ORDERS]) is None
    assert stops.has(ORDERS)
    assert stops.add(WHOLE, DataLoss("again", tag="TARGET_RECREATED")), "another reason"
    assert stops.topic_is_out("eu")
    assert [error.tag for error in stops.errors] == ["TARGET_RECREATED", "RECORD_TOO_LARGE"]
    stops.try_again()
    assert not stops.topic_is_out("eu")
    assert stops.clear(ORDERS)
    assert not stops.clear(ORDERS)
    stops.forget("eu")
    assert (stops.found, stops.errors) == ({}, [])


@pytest.mark.parametrize(
    ("error", "stops"),
    [
        (TOO_LARGE, True),
        (ConfigError("too large", tag="RECORD_TOO_LARGE"), False),
        (DataLoss("gone", tag="OFFSETS_GONE").at(WHOLE), True),
        (AbortAndRetry("again").at(ORDERS), False),
        (Fenced("another").at(ORDERS), False),
        (ConfigError("no right", tag="TRANSACTIONAL_ID_AUTHORIZATION_FAILED").at(ORDERS), False),
    ],
)
def test_what_stops_one_partition(error: SemelError, stops: bool) -> None:
    assert stops_a_partition(error) is stops


def test_an_error_of_the_target_names_the_source() -> None:
    targets = {ORDERS: ("A.orders", 0)}
    for partition, named in ((("A.orders", 7), ("orders", 7)), (("A.orders", -1), ("orders", -1)), (("x", 0), None)):
        with pytest.raises(ConfigError) as refused, names_source(targets):
            raise ConfigError("refused").at(partition)
        assert refused.value.partition == named


def test_what_can_be_done_about_a_record() -> None:
    answer = "writing to A.orders-0 (no key): the broker answered INVALID_RECORD: correct the row."
    error = explained(ConfigError(answer, tag="INVALID_RECORD"), ORDERS, 7)
    assert (error.tag, error.partition) == ("INVALID_RECORD", ORDERS)
    assert error.message.startswith(
        "writing to A.orders-0 (no key) was refused (INVALID_RECORD): a record of orders-0 at"
    )
    assert "offset 7" in error.message
    assert "correct the row" not in error.message
    assert explained(TOO_LARGE, ORDERS, 7) is TOO_LARGE
    assert len(Stop.of(ConfigError("x" * 5_000)).message) < 700
