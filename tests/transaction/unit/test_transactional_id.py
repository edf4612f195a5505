"""Transactional ids are parsed from the right, and nothing owns what merely begins like it (PROTOCOL 1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ConfigError
from semel.transaction.transactional_id import IdKind, Name, check_prefix, parse

UUID = "6f1f2a34-7d0e-4c55-9f0e-0123456789ab"
PREFIXES = st.text(min_size=1, max_size=40).filter(lambda text: parse(text).kind is IdKind.OWNER)
TAILS = st.tuples(st.sampled_from(["task", "unit"]), st.uuids().map(str), st.integers(0, 10**9))


@given(PREFIXES, TAILS)
def test_what_was_put_together_is_taken_apart(prefix: str, tail: tuple[str, str, int]) -> None:
    kind, number, index = tail
    assert parse(f"{prefix}.{kind}.{number}.{index}") == Name(prefix, IdKind(kind), number, index)


@given(PREFIXES, TAILS, TAILS)
def test_only_the_last_tail_counts(prefix: str, inner: tuple[str, str, int], outer: tuple[str, str, int]) -> None:
    first = ".".join(map(str, (prefix, *inner)))
    assert parse(".".join(map(str, (first, *outer)))).prefix == first


@given(st.text())
def test_any_text_has_one_reading(text: str) -> None:
    name = parse(text)
    if name.kind is IdKind.OWNER:
        assert name == Name(text, IdKind.OWNER)
    else:
        assert text == f"{name.prefix}.{name.kind.value}.{name.uuid}.{name.index}"


@pytest.mark.parametrize(
    "text",
    [
        "orders",
        "orders-eu",
        "orders.task",
        "orders.task.1",
        f"orders.task.{UUID}",
        f"orders.task.{UUID}.",
        f"orders.task.{UUID}.-1",
        f"orders.task.{UUID}.01",
        f"orders.task.{UUID}.\N{ARABIC-INDIC DIGIT ONE}",
        f"orders.task.{UUID}.1\n",
        f"orders.task.{UUID.upper()}.1",
        f"orders.job.{UUID}.1",
        f"orders-task-{UUID}-1",
        f".task.{UUID}.1",
        f"task.{UUID}.1",
    ],
)
def test_without_a_whole_tail_it_is_an_owners_id(text: str) -> None:
    assert parse(text) == Name(text, IdKind.OWNER)


def test_a_prefix_owns_nothing_of_a_longer_one() -> None:
    assert parse(f"orders-eu.task.{UUID}.0").prefix == "orders-eu"
    assert parse(f"orders.eu.unit.{UUID}.0").prefix == "orders.eu"


@pytest.mark.parametrize(
    "prefix",
    ["", " ", " orders", "orders\n", f"orders.task.{UUID}.0", f"orders.unit.{UUID}.12", "x" * 30_001, "ö" * 15_001],
)
def test_a_prefix_that_cannot_be_an_owners_id_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigError, match="Nothing was written"):
        check_prefix(prefix)


@pytest.mark.parametrize("prefix", ["orders", "a", "orders.task", "bestellungen-ö", "x" * 30_000])
def test_any_other_prefix_is_taken_as_it_is(prefix: str) -> None:
    assert check_prefix(prefix) == prefix


def test_what_no_task_is_called_is_an_owners_id() -> None:
    """Found by the fuzzers: a number of more digits than Python reads."""
    tail = "orders.task.2f5b0c5e-0b8f-4f6e-9d2f-6f1c5a0e7b11."
    assert parse(tail + "9" * 5000) == Name(tail + "9" * 5000, IdKind.OWNER)
    assert parse(f"{tail}999999999").index == 999_999_999


def test_half_a_character_is_refused() -> None:
    with pytest.raises(ConfigError, match="half a character"):
        check_prefix("orders\ud800")
