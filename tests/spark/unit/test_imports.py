"""What a new Python process of Spark loads before it does something."""

from __future__ import annotations

import subprocess
import sys

_ROUND_TRIP = """
import sys
from uuid import UUID
import pyarrow as pa
from semel.read.columns import Columns
from semel.records import Codec, decode, scan
from semel.records.arrays import array, joined, repeated
from semel.spark.sink.encode_stage import Encoder
from semel.spark.task_result import encode_result
from semel.errors import ConfigError
import semel.spark.sink.write_stage
from semel.spark.sink.encode_stage import unshuffled
from semel.transaction.ticket import TicketTopic
import numpy as np

count = 100
keys = joined([b"key %3d" % i for i in range(count)], pa.binary())
times = array(np.arange(count) * 1_000_000, pa.timestamp("us", "UTC"))
parts = array(np.arange(count, dtype=np.int32) % 3, pa.int32())
names = pa.concat_arrays([repeated("a", 40), repeated("b", 60)])
pairs = pa.StructArray.from_arrays([repeated("trace", count), keys], ["key", "value"])
lists = pa.ListArray.from_arrays(array(np.arange(count + 1, dtype=np.int32), pa.int32()), pairs)
plain = {"key": keys, "value": keys}
timed = {"value": keys, "timestamp": times, "partition": parts}
for columns in (plain, timed, {**plain, "topic": names}, {**plain, "headers": lists}):
    rows = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    topics = {name: TicketTopic(UUID(int=1), 3, 1_000_000) for name in ("a", "b")}
    encoder = Encoder(None if "topic" in columns else "a", topics, {"a": 0, "b": 3}, 2, True, Codec.NONE, 1_000_000)
    read = 0
    for encoded in encoder([rows]):
        for buffer in [batch for _, _, batches in unshuffled(encoded) for batch in batches]:
            for headers in (False, True):
                decoded = decode(buffer, scan(buffer), headers=headers)
                read += Columns(("a", 0), headers=headers).arrange(decoded).num_rows
    assert read == 2 * count
encode_result(ConfigError("refused"))
print(sorted({"pandas"} & sys.modules.keys()))
"""


def test_reading_and_writing_load_no_pandas() -> None:
    """pyarrow loads it behind one's back; each new worker would start half a second later."""
    done = subprocess.run([sys.executable, "-c", _ROUND_TRIP], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_planning_loads_no_kernels() -> None:
    """Each query starts three processes that plan and compute nothing."""
    code = "import sys, semel.spark.source.readers; print(sorted({'pandas', 'pyarrow.compute'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
