"""Windows of time, by the time of the records, as in Kafka Streams: the kinds that there are.

================  ====================================================================================================
``kind``          what a kind of windows has to say
``keys``          a window in the keys of stores, changelogs and outputs
``record_keys``   a record's place in the keys of a join's stores
``time_windows``  tumbling and hopping windows
``join_windows``  windows of joins of two streams
``duration``      ``"5 min"`` as milliseconds
================  ====================================================================================================

A new kind is a module with a subclass of :class:`Windows`, and the function below that makes one. Session and sliding
windows are not there yet.
"""

from __future__ import annotations

from typing import NoReturn

from semel.errors import Unsupported
from semel.streams.windows.join_windows import JoinWindows, join
from semel.streams.windows.kind import Windows
from semel.streams.windows.time_windows import hopping, tumbling

__all__ = ["JoinWindows", "Windows", "hopping", "join", "session", "sliding", "tumbling"]


def session(*_: object, **__: object) -> NoReturn:
    """Not there yet: raises :class:`Unsupported`."""
    raise _later("session windows")


def sliding(*_: object, **__: object) -> NoReturn:
    """Not there yet: raises :class:`Unsupported`."""
    raise _later("sliding windows")


def _later(what: str) -> Unsupported:
    return Unsupported(f"{what} are not there yet. Nothing was read. Use tumbling or hopping windows.", tag="NOT_YET")
