"""Streams: functions, state, windows and joins over topics, where state, output and offsets commit together.

- ``app``: an application and its settings; ``stream``: what its topology is built of, in Kafka Streams' words.
- ``windows``, ``serdes``, ``rows``: windows of time, serialisation, and rows on their way.
- ``topology``: nodes, their names, and the sub-topologies that they form; ``nodes``: what they do.
- ``task``: a sub-topology for one partition; ``state``: what it keeps; ``topics``: those that belong to an application.
- ``worker``: a member of the group, with its tasks and one transaction.
- ``lookup``: what a store holds, by its changelog; ``reset``: begin again from the input.
- ``testing``: a driver without a broker.
"""

from semel.streams import windows
from semel.streams.app import App
from semel.streams.rows import Record

__all__ = ["App", "Record", "windows"]
