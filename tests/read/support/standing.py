"""A standing reader in a thread of its own."""

from __future__ import annotations

import threading
from typing import Any

from semel.read import Reader


class Standing:
    """A standing reader in a thread. ``batches`` has what has come."""

    def __init__(self, reader: Reader) -> None:
        self.batches: list[Any] = []
        self.failed: list[Exception] = []
        self._reader, self._stop = reader, threading.Event()
        self._thread = threading.Thread(target=self._read)

    def has(self, count: int) -> bool:
        """Return whether so many rows have come."""
        assert self.failed == []
        return sum(int(batch.num_rows) for batch in list(self.batches)) >= count

    def _read(self) -> None:
        try:
            for answer in self._reader.answers(idle=True):
                for taken in answer:
                    self.batches += [batch for batch, _ in taken.decode(headers=False, max_rows=1_000)]
                if self._stop.is_set():
                    return
        except Exception as error:
            self.failed.append(error)

    def __enter__(self) -> Standing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
