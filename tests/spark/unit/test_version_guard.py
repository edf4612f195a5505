"""What executors are given: used by the version of semel that made it, refused by any other before anything of it is
read.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from typing import TypeVar, cast

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from semel import __version__
from semel.errors import ConfigError, DataLoss, Fenced
from semel.spark.task_result import decode_result, encode_result
from semel.spark.version_guard import Sealed, SealedPartition, SealedReader, SealedStage, SealedWriting, pack
from tests.formats.unit.forms import OTHER, RECEIPT

ROWS = pa.RecordBatch.from_pydict({"value": [b"x"]})
#: No version can read this.
UNREADABLE = b"not a pickle"


_T = TypeVar("_T", bound=Sealed)


def doubled(batches: Iterator[pa.RecordBatch], times: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from [batch] * times


def untouched() -> Iterator[pa.RecordBatch]:
    raise AssertionError("a row was taken")
    yield ROWS


def carried(one: _T) -> _T:
    return cast(_T, pickle.loads(pickle.dumps(one)))


@pytest.mark.parametrize("kind", [SealedStage, SealedWriting])
def test_the_same_version_runs_it(kind: type[SealedStage]) -> None:
    stage = carried(kind(*pack(partial(doubled, times=2))))
    assert [*stage(iter([ROWS]))] == [ROWS, ROWS]


def test_another_version_refuses_before_a_row() -> None:
    named = f"semel {OTHER} made .* has semel {__version__}"
    with pytest.raises(ConfigError, match=named):
        carried(SealedStage(OTHER, UNREADABLE))(untouched())
    with pytest.raises(ConfigError, match=named):
        carried(SealedReader(OTHER, UNREADABLE)).read(InputPartition(None))
    with pytest.raises(ConfigError, match=named):
        carried(SealedPartition(OTHER, UNREADABLE)).unpack()


def test_a_writing_task_answers_where_others_raise() -> None:
    """A task that fails is started again, and that attempt would only say that it is the second one."""
    (answer,) = carried(SealedWriting(OTHER, UNREADABLE))(untouched())
    refused = decode_result(answer.column(0)[0].as_py())
    assert isinstance(refused, ConfigError)
    assert refused.tag == "OTHER_VERSION"


def test_what_a_task_raises_while_it_writes_is_not_taken_for_a_refusal() -> None:
    with pytest.raises(AssertionError, match="a row was taken"):
        [*SealedWriting(*pack(partial(doubled, times=1)))(untouched())]


def test_what_is_sealed_is_not_shown() -> None:
    """Spark puts the text of a partition into errors; the properties of a source hold passwords."""
    for kind in (SealedStage, SealedWriting, SealedReader):
        assert "hunter2" not in repr(kind(*pack({"password": "hunter2"})))


def test_answers_come_back_as_they_were() -> None:
    for answer in (RECEIPT, Fenced("two\nlines", tag="X")):
        back = decode_result(encode_result(answer).column(0)[0].as_py())
        assert (type(back), str(back)) == (type(answer), str(answer))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"error":"Exception","v":1,"semel":"0.1.0","tag":"X","message":"m"}',
        b'{"error":7,"v":1,"semel":"0.1.0"}',
    ],
)
def test_what_is_no_answer_is_said(text: bytes) -> None:
    with pytest.raises((DataLoss, ConfigError)) as raised:
        decode_result(text)
    assert raised.value.tag in ("RECEIPT_DAMAGED", "OTHER_VERSION")


def test_an_answer_in_a_later_form_names_its_version() -> None:
    with pytest.raises(ConfigError, match=r"semel 9\.0 made the answer of a task"):
        decode_result(b'{"error":"ConfigError","v":2,"semel":"9.0"}')
