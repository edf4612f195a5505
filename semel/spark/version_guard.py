"""Sealed values that Spark carries to executors: the version of semel that made them as text, and the rest as bytes
that no other version opens.

Spark unpickles functions, readers and partitions before any code of ours runs, and would import what only one version
has. So what it unpickles is one of the four classes here. Their names, and that they are made of a version and of
bytes, stay: a refusal needs no more than that of the other version. Nothing here costs anything per row.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from semel._version import __version__
from semel.errors import ConfigError
from semel.same_version import check_same_version
from semel.spark.task_result import encode_result

__all__ = ["Sealed", "SealedPartition", "SealedReader", "SealedStage", "SealedWriting", "pack"]


class Sealed:
    """Something that only the version of semel that made it can use. ``body`` may hold secrets: it is not shown."""

    what = "the job"

    def __init__(self, made_by: str, body: bytes) -> None:
        self._made_by, self._body = made_by, body

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._made_by, self._body)

    def unpack(self) -> Any:
        """Return the sealed value. Raise :class:`ConfigError` if another version of semel has sealed it."""
        check_same_version(self._made_by, self.what)
        return pickle.loads(self._body)


class SealedStage(Sealed):
    """A function of ``mapInArrow``. In a process with another version it raises before it has taken a row."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Call it."""
        return iter(self.unpack()(batches))


class SealedWriting(Sealed):
    """The function of the writing stage, which answers where others raise: Spark would start a task that fails again,
    and that may not write.

    Not a :class:`SealedStage`: on machines of which one has another version, the answer names the version, and a second
    attempt elsewhere would not.
    """

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Call it, or answer with the refusal."""
        try:
            write = self.unpack()
        except ConfigError as refused:
            return iter([encode_result(refused)])
        return iter(write(batches))


class SealedReader(Sealed):
    """The reader of a source in a task.

    In a process with another version it raises before anything is asked of a broker.
    """

    what = "the plan of this source"

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one partition."""
        read: Callable[[InputPartition], Iterator[Any]] = self.unpack()
        return read(partition)


class SealedPartition(Sealed, InputPartition):
    """A partition of Spark's input; Spark insists on the class, and unpickles it before the reader is asked for
    anything.
    """

    what = "the plan of this source"


def pack(function: Callable[..., Any] | object) -> tuple[str, bytes]:
    """Return the two parts of a sealed value."""
    return __version__, pickle.dumps(function)
