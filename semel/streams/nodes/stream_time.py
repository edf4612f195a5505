"""The stream time at each row, by which an aggregation in windows tells late rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from semel.streams.state.state_store import StateStore, StoreSpec, number, stamps

__all__ = ["GROUP", "GroupTimes", "stream_times"]

#: The column of the groups of rows that come from several streams.
GROUP = "__group"


def stream_times(time: Any, before: int) -> Any:
    """Return the highest time up to each row, and ``before`` all of them."""
    return np.maximum.accumulate(np.maximum(time, before))


@dataclass(frozen=True)
class GroupTimes:
    """The stream time of each group in a store: as in Kafka Streams, a row of one makes no row of another one late."""

    spec: StoreSpec

    def at(self, rows: Any, time: Any, stores: Mapping[str, StateStore]) -> Any:
        """Return the stream time of its group at each row, and keep it."""
        store, groups = stores[self.spec.name], rows[GROUP].to_numpy()
        found = np.empty(len(time), np.int64)
        for group in np.unique(groups).tolist():
            name, mine = bytes([group]), groups == group
            (before,) = store.get([name])
            found[mine] = stream_times(time[mine], -1 if before is None else number(before))
            store.put([name], stamps(found[mine][-1:]))
        return found
