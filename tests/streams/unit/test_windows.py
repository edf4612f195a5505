"""A kind of windows is one class: one that only this test knows works from the rows to the store and the topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from semel.errors import ConfigError
from semel.streams import App, windows
from semel.streams.rows import timestamps
from semel.streams.state.backend import Memory
from semel.streams.state.state_store import StateStore
from semel.streams.testing import Driver
from semel.streams.windows.keys import BY_START, WindowKeys

DAY = 86_400_000
JANUARY, FEBRUARY, MARCH = 0, 31 * DAY, 59 * DAY


@dataclass(frozen=True)
class Months(windows.Windows):
    """Windows of several lengths, with both bounds in their keys, as Kafka Streams writes sessions."""

    keys = WindowKeys(("end", "start"))
    grace_ms: int = 0
    longest_ms = 31 * DAY
    in_words = "month"

    def assign(self, times: Any) -> tuple[Any, Any, Any]:
        months = times.astype("datetime64[ms]").astype("datetime64[M]")
        bounds = ((months + more).astype("datetime64[ms]").astype(np.int64) for more in (0, 1))
        return np.arange(len(times)), *bounds


def word(number: int) -> bytes:
    return number.to_bytes(8, "big")


def monthly() -> App:
    app = App("months")
    app.stream("in", key="string").group_by_key().windowed(Months()).count("counts").to_stream().to("out")
    return app


def test_a_kind_of_its_own_works_from_rows_to_topics() -> None:
    app = monthly()
    driver = Driver(app)
    driver.pipe_many("in", [("a", "1", 5), ("b", "1", 31 * DAY - 1), ("a", "1", 7), ("a", "1", FEBRUARY)])
    driver.pipe("in", "1", key="a", timestamp=9)  # January is closed
    assert app.dropped_records == {"KSTREAM-AGGREGATE-0000000001": 1}
    assert driver.store("counts") == {
        (b"a", JANUARY): word(2),
        (b"b", JANUARY): word(1),
        (b"a", FEBRUARY): word(1),
    }
    written = {one.key: one.value for one in driver.read("out", key="bytes", value="json")}
    assert written == {
        b"a" + word(FEBRUARY) + word(JANUARY): 2,
        b"b" + word(FEBRUARY) + word(JANUARY): 1,
        b"a" + word(MARCH) + word(FEBRUARY): 1,
    }
    (part,) = app.topology.sub_topologies()
    assert [spec.holds for spec in part.stores] == ["a count by key (string) and month"]


def test_what_is_old_goes_by_the_first_bound_and_the_changelog_gives_back_the_store() -> None:
    (spec,) = monthly().topology.sub_topologies()[0].stores
    store = StateStore(spec, Memory())
    store.put(Months.keys.in_store([b"a"], np.array([0]), np.array([FEBRUARY])), [word(5) + b"x"])
    store.saw(5)
    changes = store.changes()
    assert changes["key"].to_pylist() == [b"a" + word(FEBRUARY) + word(JANUARY)]
    restored = StateStore(spec, Memory())
    (batch,) = changes.combine_chunks().to_batches()
    restored.restore(batch, "id", 1)
    assert list(restored.entries()) == [(b"a", JANUARY, 5, b"x")]
    restored.saw(FEBRUARY + 31 * DAY - 1)
    assert restored.changes().num_rows == 0
    restored.saw(FEBRUARY + 31 * DAY)
    assert restored.changes()["value"].to_pylist() == [None]


@pytest.mark.parametrize("keys", [BY_START, Months.keys], ids=["start", "end and start"])
def test_a_key_is_found_in_store_and_changelog(keys: WindowKeys) -> None:
    starts, ends = np.array([10, 20, 30]), np.array([15, 25, 35])
    stored = keys.in_store([b"a", b"", b"ab"], starts, ends)
    assert [(keys.key(one), keys.start(one)) for one in stored] == [(b"a", 10), (b"", 20), (b"ab", 30)]
    logged = keys.in_changelog(stored)
    assert keys.from_changelog(logged) == stored
    column = pa.array(logged, pa.binary())
    assert [keys.of_key(column, key).to_pylist().index(True) for key in (b"a", b"", b"ab")] == [0, 1, 2]
    rows = pa.table({"window_start": timestamps(starts), "window_end": timestamps(ends)})
    output = keys.in_output(pa.array([b"a", b"", b"ab"], pa.binary()), rows).to_pylist()
    assert [one + keys.suffix for one in output] == logged


def test_streams_of_two_written_forms_are_not_merged() -> None:
    app = App("months")
    grouped = app.stream("in", key="string").group_by_key()
    months = grouped.windowed(Months()).count().to_stream()
    with pytest.raises(ConfigError, match="two kinds of windows cannot be merged"):
        months.merge(grouped.windowed(windows.tumbling("1 h")).count().to_stream())
    months.merge(grouped.windowed(Months()).count().to_stream())


def test_columns_that_no_key_needs_may_be_anything() -> None:
    app = App("labels")
    counts = app.stream("in", key="string").group_by_key().windowed(windows.tumbling(10)).count()
    labelled = counts.to_stream().map_batches(
        lambda rows: rows.set_column(2, "window_end", pa.array(["soon"] * rows.num_rows)), key="string"
    )
    labelled.to("out")
    driver = Driver(app)
    driver.pipe("in", "1", key="a", timestamp=21)
    assert [one.key for one in driver.read("out", key="bytes")] == [b"a" + word(20)]
