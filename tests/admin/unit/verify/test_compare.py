"""Ids are counted a file at a time: the same numbers whatever fits into memory, and memory that does not grow with the
number of ids.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from semel.admin.verify.compare import Read, Verified, _judge_each
from semel.admin.verify.spill import SCHEMA, Spill

PLENTY = 1 << 30


def spilled(directory: Path, ids: Iterable[str], limit: int) -> dict[int, Path]:
    spill = Spill(directory, limit)
    rows = [(one.encode(), offset % 3, offset) for offset, one in enumerate(ids)]
    for first in range(0, len(rows), 100):
        columns = zip(*rows[first : first + 100], strict=True)
        spill.add(
            pa.RecordBatch.from_arrays(
                [pa.array(column, kind.type) for column, kind in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
            )
        )
    return spill.close()


def judged(directory: Path, topic: list[str], source: list[str] | None, limit: int) -> Verified:
    found = Verified(Read("topic", (), 0), None if source is None else Read("source", (), 0))
    if source is not None:
        found.lost = found.strangers = 0
    files = [
        spilled(directory / f"{name}-{limit}", ids, limit)
        for name, ids in (("topic", topic), ("source", source))
        if ids is not None
    ]
    _judge_each(found, files, limit, 3, 1)
    assert not list(directory.rglob("*.arrow"))
    return found


@pytest.mark.parametrize("limit", [PLENTY, 20_000, 2_000])
def test_numbers_do_not_depend_on_what_fits_into_memory(tmp_path: Path, limit: int) -> None:
    chance = random.Random(7)
    topic = [f"id-{chance.randrange(2_000)}" for _ in range(3_000)]
    source = [f"id-{chance.randrange(2_000)}" for _ in range(2_000)]
    there, made_from = Counter(topic), Counter(source)
    found = judged(tmp_path, topic, source, limit)
    assert found.ids == len(there)
    assert found.lost == len(made_from.keys() - there.keys())
    assert found.strangers == len(there.keys() - made_from.keys())
    doubled = {one: times for one, times in there.items() if times > max(made_from[one], 1)}
    assert found.duplicated == len(doubled)
    assert found.surplus == sum(times - max(made_from[one], 1) for one, times in doubled.items())
    assert found.repeated == sum(1 < times <= made_from[one] for one, times in there.items())
    assert found.fewer == sum(times < made_from[one] for one, times in there.items())
    for kind, where in (("duplicated", topic), ("strangers", topic), ("lost", source)):
        assert len(found.examples[kind]) == 3
        for example in found.examples[kind]:
            one = example.id.decode()
            assert (example.times, example.in_source) == (there[one], made_from[one] or None)
            assert (
                sorted(example.places, key=lambda place: place[1])
                == [(at % 3, at) for at, other in enumerate(where) if other == one][:3]
            )


def test_one_id_that_is_everywhere_fits(tmp_path: Path) -> None:
    found = judged(tmp_path, ["same"] * 5_000 + ["other"], None, 300)
    assert (found.ids, found.duplicated, found.surplus, found.lost) == (2, 1, 4_999, None)


def test_nothing_is_clean(tmp_path: Path) -> None:
    assert judged(tmp_path, [], [], PLENTY).clean
    assert not judged(tmp_path, [], ["one"], 300).clean


MEASURED = """
import sys, tempfile
from pathlib import Path
import numpy as np, pyarrow as pa
from semel.admin.verify.spill import SCHEMA, Spill
from semel.admin.verify.compare import Read, Verified, _judge_each

ids, limit = int(sys.argv[1]), int(sys.argv[2])
with tempfile.TemporaryDirectory() as folder:
    spill = Spill(Path(folder) / "0", limit)
    for first in range(0, ids, 5_000):
        offsets = np.arange(first, first + 5_000)
        keys = [f"{number:09}{'x' * 80}".encode() for number in offsets]
        columns = [pa.array(keys), pa.array(np.zeros(5_000, np.int32)), pa.array(offsets)]
        spill.add(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
    found = Verified(Read("topic", (), 0), None)
    _judge_each(found, [spill.close()], limit, 3, 1)
assert found.ids == ids
print(pa.default_memory_pool().max_memory())
"""


def peak(ids: int, limit: int) -> int:
    """The most bytes that Arrow held, in a process of its own, while so many ids of 89 bytes were spilled and
    judged.
    """
    return int(
        subprocess.run(
            [sys.executable, "-c", MEASURED, str(ids), str(limit)], capture_output=True, text=True, check=True
        ).stdout
    )


def test_memory_is_bounded_and_without_the_bound_it_is_not() -> None:
    """200,000 ids of 89 bytes are 20 MB with their places."""
    limit = 1 << 20
    assert peak(200_000, limit) < 4 * limit
    assert peak(200_000, PLENTY) > 20 * limit
