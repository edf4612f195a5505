"""Windows of time, by the time of the records, as in Kafka Streams: the kinds that there are.

- ``kind``: what a kind of windows has to say.
- ``time_windows``, ``session_windows``, ``sliding_windows``: the kinds.
- ``join_windows``: windows of joins of two streams.
- ``keys``: a window in the keys of stores, changelogs and outputs; ``record_keys``: in stores that are read by key.
- ``duration``: ``"5 min"`` as milliseconds.

A new kind is a module with a subclass of :class:`Windows` or :class:`WindowsOfKey`, and the function that makes one.
"""

from semel.streams.windows.join_windows import JoinWindows, join
from semel.streams.windows.kind import WindowKind, Windows, WindowsOfKey
from semel.streams.windows.session_windows import session
from semel.streams.windows.sliding_windows import sliding
from semel.streams.windows.time_windows import hopping, tumbling

__all__ = [
    "JoinWindows",
    "WindowKind",
    "Windows",
    "WindowsOfKey",
    "hopping",
    "join",
    "session",
    "sliding",
    "tumbling",
]
