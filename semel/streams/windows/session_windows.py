"""Session windows: records of a key that lie no further apart than a gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from semel.errors import ConfigError
from semel.streams.windows.duration import milliseconds
from semel.streams.windows.keys import WindowKeys
from semel.streams.windows.kind import KeyState, Steps, WindowsOfKey
from semel.streams.windows.record_keys import RecordKeys, SessionKeys

__all__ = ["SessionWindows", "session"]


@dataclass(frozen=True, slots=True)
class SessionWindows(WindowsOfKey):
    """Sessions that end ``gap_ms`` after their last record. Their end is the time of that record."""

    keys: ClassVar[WindowKeys] = WindowKeys(("end", "start"))
    keys_of_store: ClassVar[type[RecordKeys]] = SessionKeys
    keeps_headers: ClassVar[bool] = False
    gap_ms: int
    grace_ms: int

    @property
    def in_words(self) -> str:
        """Name the gap."""
        return f"session with a gap of {self.gap_ms} ms"

    @property
    def retention_ms(self) -> int:
        """The gap and the grace, from the session's end."""
        return self.gap_ms + self.grace_ms

    @property
    def kept_ms(self) -> int:
        """The gap and the grace, as in Kafka Streams."""
        return self.gap_ms + self.grace_ms

    @property
    def close_ms(self) -> int:
        """The gap and the grace: until then a record may belong to it."""
        return self.gap_ms + self.grace_ms

    @property
    def reach_ms(self) -> int:
        """A session ends with a record."""
        return 0

    def take(self, key: KeyState, time: int, now: int, steps: Steps) -> bool:
        """Merge a record with the sessions that it meets."""
        start = end = time
        state, met = steps.initial(), []
        for one in key.windows():
            if one[1] >= time - self.gap_ms and one[0] <= time + self.gap_ms:
                state = steps.merge(state, one[2])
                start, end = min(start, one[0]), max(end, one[1])
                met.append(one)
        if end < now - self.grace_ms - self.gap_ms:
            return False
        if (start, end) != (time, time):
            for one in met:
                key.put(one[0], one[1], None, time, one[1], one[2])
        key.put(start, end, steps.add(state), time, end)
        return True


def session(gap: str | int, *, grace: str | int = 0) -> SessionWindows:
    """Return windows of activity: ``session("30 min", grace="1 min")``. They end when a key is quiet for the gap."""
    found = SessionWindows(milliseconds(gap, "gap"), milliseconds(grace, "grace"))
    if found.gap_ms < 1:
        raise ConfigError(
            "a session with a gap of 0 ms never ends. Nothing was read. Give a gap of at least 1 ms.", tag="WRONG_VALUE"
        )
    return found
