"""Ids on disk, spread over files by their hash, so that memory does not grow with their number.

All rows with one id are in one file, so each file is judged by itself. A file that is too large for memory is spread
again, by further bits of the hash.

The files are hash partitions, not sorted runs: nothing needs the order, and a row is written once (twice if a file is
too large). Both steps are Arrow's, without a loop over rows. A database on disk (sqlite3) would take each row from
Python, and write its index all over the disk.

Memory: the rows that :meth:`Spill.add` holds back (a quarter of ``limit``), then one file of at most ``limit`` bytes
and its tables. Disk: the ids, and 16 bytes and a little for each row.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from semel.records.partitioner import partition_for

__all__ = ["LEVELS", "SCHEMA", "Spill", "rows_of"]

SCHEMA = pa.schema([("id", pa.binary()), ("partition", pa.int32()), ("offset", pa.int64())])
_BITS = 6
_FILES = 1 << _BITS
#: The hash has 30 bits that differ.
LEVELS = 5


class Spill:
    """Files of rows (id, partition, offset) in ``directory``. ``level`` selects the bits of the hash that choose the
    file.
    """

    def __init__(self, directory: Path, limit: int, level: int = 0) -> None:
        directory.mkdir()
        self._directory = directory
        self._hold_back = limit // 4
        self._level = level
        self._writers: dict[int, Any] = {}
        self._pending: list[Any] = []
        self._size = 0

    def add(self, rows: Any) -> None:
        """Add a record batch of :data:`SCHEMA`, without null ids."""
        self._pending.append(rows)
        self._size += rows.get_total_buffer_size()
        if self._size > self._hold_back:
            self._write()

    def close(self) -> dict[int, Path]:
        """Return the files, by number.

        Rows with one id are in one file, and a number stands for the same ids in every spill of this level.
        """
        self._write()
        for writer in self._writers.values():
            writer.close()
        return {number: self._path(number) for number in self._writers}

    def _write(self) -> None:
        if not self._pending:
            return
        rows = pa.Table.from_batches(self._pending).combine_chunks()
        self._pending.clear()
        self._size = 0
        for batch in rows.to_batches():
            hashed = partition_for(batch.column("id"), 1 << (_BITS * LEVELS), 0)
            number = (hashed >> (_BITS * self._level)) & (_FILES - 1)
            order = np.argsort(number, kind="stable")
            sorted_rows = batch.take(pa.array(order))
            bounds = np.searchsorted(number[order], np.arange(_FILES + 1))
            for which in range(_FILES):
                first, last = int(bounds[which]), int(bounds[which + 1])
                if last > first:
                    self._writer(which).write_batch(sorted_rows.slice(first, last - first))

    def _writer(self, number: int) -> Any:
        if number not in self._writers:
            self._writers[number] = pa.ipc.new_stream(str(self._path(number)), SCHEMA)
        return self._writers[number]

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:02d}.arrow"


def rows_of(path: Path) -> Iterator[Any]:
    """Yield the record batches of a file, one in memory at a time."""
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
        yield from reader
