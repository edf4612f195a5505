"""Versioned stores and tables: what is found as of a time, against a plain list."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import Unsupported
from semel.streams import App
from semel.streams.dsl.suppressed import Suppressed
from semel.streams.state.backend import Memory
from semel.streams.state.state_store import StateStore, StoreSpec
from semel.streams.state.versions import NOT_PUT, VALID_TO_UNDEFINED, Versions
from semel.streams.testing import Driver

PUTS = st.lists(
    st.tuples(st.sampled_from([b"a", b"b"]), st.none() | st.binary(max_size=3), st.integers(0, 60)), max_size=40
)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "semel.streams")


def new_store(history: int) -> StateStore:
    return StateStore(StoreSpec("versions", history_ms=history), Memory())


class Plain:
    """The definition: all that was put in time, and what of it is valid at a time."""

    def __init__(self, history: int) -> None:
        self._history, self._now = history, -1
        self._put: dict[bytes, dict[int, bytes | None]] = {}

    def put(self, key: bytes, value: bytes | None, start: int) -> int:
        if start < self._now - self._history:
            return NOT_PUT
        self._now = max(self._now, start)
        self._put.setdefault(key, {})[start] = value
        return min((one for one in self._put[key] if one > start), default=VALID_TO_UNDEFINED)

    def get(self, key: bytes, as_of: int | None) -> bytes | None:
        there = self._put.get(key, {})
        newest = max(there, default=-1)
        if as_of is None or newest <= as_of:
            return there.get(newest)
        valid = max((one for one in there if one <= as_of), default=-1)
        return there.get(valid) if as_of >= self._now - self._history else None


@settings(deadline=None)
@given(PUTS, st.sampled_from([0, 3, 20, 100]), st.integers(1, 9))
def test_what_is_found_is_what_was_put_also_after_a_restore(
    puts: list[tuple[bytes, bytes | None, int]], history: int, often: int
) -> None:
    """A restored store has the last record of each key alone, as after compaction, and finds the same."""
    plain, store, changelog = Plain(history), new_store(history), {}
    versions = Versions(store)
    for number, (key, value, start) in enumerate(puts):
        assert versions.put(key, value, start) == plain.put(key, value, start)
        if number % often == 0:
            changes = store.changes()
            changelog.update({row["key"]: row for row in changes.to_pylist()})
            store.apply("topic", number)
    changes = store.changes()
    changelog.update({row["key"]: row for row in changes.to_pylist()})
    restored = new_store(history)
    restored.restore(changes.from_pylist(list(changelog.values()), schema=changes.schema), "topic", 0)
    for one in (versions, Versions(restored)):
        for key in (b"a", b"b", b"none"):
            for as_of in (None, *range(-1, 62)):
                found = one.get(key, as_of)
                assert (None if found is None else found.value) == plain.get(key, as_of)
    assert restored.stream_time == store.stream_time


def test_keys_that_were_deleted_long_ago_go_and_histories_get_shorter() -> None:
    store = new_store(10)
    versions = Versions(store)
    for start in range(5):
        versions.put(b"gone", b"x", start)
        versions.put(b"kept", b"x", start)
    versions.put(b"gone", None, 6)
    store.changes()
    store.apply("topic", 1)
    assert {key for key, _ in store.scan()} == {b"gone", b"kept"}
    versions.put(b"other", b"x", 100_000)
    assert {key for key, _ in store.scan()} == {b"kept", b"other"}
    assert versions.get(b"kept", 3) is None
    assert versions.get(b"kept", 4) is not None  # the newest one never expires
    changes = {row["key"]: row["value"] for row in store.changes().to_pylist()}
    assert changes[b"gone"] is None
    assert len(changes[b"kept"]) == 13


def test_a_stream_finds_the_version_of_its_time() -> None:
    app = App("versions")
    rates = app.table("rates", key="string", value="json", name="rates", history_retention="1 h")
    sales = app.stream("sales", key="string", value="json")
    sales.left_join(rates, lambda sale, rate: sale * (rate or -1)).to("out")
    rates.to_stream().to("changes")
    driver = Driver(app)
    for value, timestamp in ((2, 10), (3, 20), (5, 15)):
        driver.pipe("rates", value, key="eur", timestamp=timestamp)
    assert [row.value for row in driver.read("changes")] == ["2", "3", "5"]  # the late one, too
    for timestamp in (9, 10, 15, 19, 20):
        driver.pipe("sales", 100, key="eur", timestamp=timestamp)
    driver.pipe("sales", 100, timestamp=20)
    assert [row.value for row in driver.read("out")] == ["-100", "200", "500", "500", "300", "-100"]
    assert driver.store("rates") == {b"eur": b"3"}
    driver.pipe("rates", 7, key="usd", timestamp=10_000_000)
    driver.pipe("rates", 7, key="eur", timestamp=16)
    assert app.dropped_records == {"KTABLE-SOURCE-0000000001": 1}
    assert len(driver.read("changes")) == 1


def test_words_that_need_more_than_versions_are_refused() -> None:
    app = App("refused")
    versions = app.table("v", key="string", value="json", history_retention=10)
    other = app.table("o", key="string", value="json")
    for word in (
        lambda: versions.filter(lambda record: True),
        lambda: versions.map_values(lambda record: 1),
        lambda: versions.group_by(lambda record: ("a", 1)),
        lambda: versions.suppress(Suppressed.until_time_limit(5)),
        lambda: versions.join(other, lambda one, two: 1),
        lambda: other.join(versions, lambda one, two: 1),
        lambda: other.join(versions, lambda one, two: 1, foreign_key_extractor=lambda record: "a"),
    ):
        with pytest.raises(Unsupported, match="of a table with versions: not there yet"):
            word()
