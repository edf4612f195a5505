"""What the stage before the shuffle hands on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.records import Batch
from semel.spark.sink.encode_stage import in_portions


@given(st.lists(st.integers(1, 300), min_size=1, max_size=50))
def test_encoded_batches_are_handed_on_in_portions(sizes: list[int]) -> None:
    turns = [(index, Batch((bytes(size),), size, 1, -1)) for index, size in enumerate(sizes)]
    found = list(in_portions(turns, 200))
    assert [pair for part in found for pair in part] == turns
    assert all(len(part) == 1 or sum(batch.size for _, batch in part) <= 200 for part in found)
