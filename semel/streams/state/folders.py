"""The folders of stores: where they lie, how one is opened, and the end of a damaged one."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable
from pathlib import Path

from semel.streams.settings import Settings
from semel.streams.state.backend import DamagedStore
from semel.streams.state.rocks import Rocks
from semel.streams.state.state_store import StateStore, StoreSpec

__all__ = ["delete", "opened", "store_folder", "task_ids"]

log = logging.getLogger("semel.streams")


def store_folder(settings: Settings, application_id: str, task: str, store: str) -> Path:
    """Return the folder of a store: ``state.dir``/application.id/task/rocksdb/store."""
    return settings.state_dir / application_id / task / "rocksdb" / store


def opened(spec: StoreSpec, folder: Path) -> StateStore:
    """Open a store. Raise :class:`DamagedStore` for one that cannot be read."""
    rocks = Rocks(folder)
    try:
        return StateStore(spec, rocks)
    except DamagedStore:  # found by its first read: left open, the folder would stay locked
        rocks.close()
        raise


def delete(error: DamagedStore) -> None:
    """Delete a store that cannot be read."""
    log.warning("a store cannot be read; it is thrown away, and restored from its changelog: %s", error)
    shutil.rmtree(error.folder, ignore_errors=True)


def task_ids(names: Iterable[str]) -> list[tuple[int, int]]:
    """Return the numbers of sub-topologies and partitions that are named; other names are none of tasks."""
    found = (name.split("_") for name in sorted(names))
    return [(int(pair[0]), int(pair[1])) for pair in found if len(pair) == 2 and all(map(str.isdecimal, pair))]
