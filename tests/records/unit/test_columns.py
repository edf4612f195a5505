from __future__ import annotations

import pyarrow as pa
import pytest

from semel.records.assembly import Assembly
from semel.records.columns import column

VALUES = [None if i % 7 == 0 else b"%d" % i * (i % 11) for i in range(200)]


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.large_string()], ids=str)
@pytest.mark.parametrize("stretch", [1, 100, 5_000])
def test_large_columns_are_taken_in_stretches(kind: pa.DataType, stretch: int) -> None:
    """As those beyond what an int32 can point into are, only shorter."""
    array = pa.array(VALUES, pa.binary()).cast(kind).slice(3, 190)
    found = column(array, "value", stretch=stretch)
    assert found.lengths.tolist() == [-1 if value is None else len(value) for value in VALUES[3:193]]
    assembly = Assembly(190)
    assembly.values(found)
    data, starts = assembly.join(b"tail")
    assert bytes(data) == b"".join(value or b"" for value in VALUES[3:193]) + b"tail"
    assert starts[-1] == len(data) - 4
