"""The number of rows that one sub-topology gets at a time, by the time that it takes for them."""

from __future__ import annotations

from semel.streams.settings import Settings
from semel.streams.topology.node import SubTopology

__all__ = ["BY_RECORD", "WHOLE_BATCHES", "Pace", "pace_of", "slice_s"]

#: The most rows of a slice unless max.poll.records is set: for functions of single records as in Kafka Streams.
BY_RECORD = 1_000
WHOLE_BATCHES = 65_536
_FIRST = 16
_GROWTH = 8
#: Shorter slices are all fixed cost.
_LEAST_S = 0.05


def slice_s(commit_interval_ms: int, max_poll_interval_ms: int) -> float:
    """Return how long a slice should take at most: commits and polls happen between slices."""
    return max(min(commit_interval_ms, max_poll_interval_ms / 4) / 1000, _LEAST_S)


class Pace:
    """Begins with few rows, grows while slices are quick, and shrinks after a slice that took too long."""

    def __init__(self, most: int, aim_s: float) -> None:
        self.most, self._aim_s = most, aim_s
        #: Rows of the next slice.
        self.rows = min(most, _FIRST)

    def took(self, rows: int, seconds: float) -> None:
        """Take note of how long a slice took."""
        fitting = int(rows * self._aim_s / max(seconds, 1e-6))
        if seconds > self._aim_s:
            self.rows = max(1, min(fitting, self.rows))
        else:
            self.rows = max(self.rows, min(self.most, fitting, rows * _GROWTH))


def pace_of(part: SubTopology, settings: Settings) -> Pace:
    """Return the pace of a sub-topology: work on whole batches gets larger slices."""
    most = settings.max_poll_records or (BY_RECORD if part.by_record else WHOLE_BATCHES)
    return Pace(most, slice_s(settings.commit_interval_ms, settings.max_poll_interval_ms))
