"""Streams: functions, state, windows and joins over topics, where state, output and offsets commit together.

- ``app``: an application; ``settings``: its properties; ``stream``: what it is built of, in Kafka Streams' words.
- ``windows``, ``serdes``, ``rows``: windows of time, serialisation, and rows on their way.
- ``processor``, ``stores``: classes of one's own that work on single records, and the stores that they are given.
- ``topology``: nodes, their names, and the sub-topologies that they form; ``repartition``: topics between those;
  ``drawing``: a picture of them; ``nodes``: what they do; ``dropped``: what they drop, counted;
  ``metrics``: what a worker has done, for Prometheus.
- ``task``: a sub-topology for one partition; ``state``: what it keeps; ``topics``: those that belong to an application.
- ``worker``: a member of the group, with its tasks and one transaction; ``task_assignor``: which member gets which
  tasks; ``pace``: how many rows it takes at a time.
- ``executors``: workers as processes on Spark executors; ``app_file``: the file of an application, which they run.
- ``lookup``: what a store holds, by its changelog; ``reset``: begin again from the input.
- ``testing``: a driver without a broker.
"""

from semel.streams import stores, windows
from semel.streams.app import App
from semel.streams.processor import Context, Processor, PunctuationType
from semel.streams.rows import Record

__all__ = ["App", "Context", "Processor", "PunctuationType", "Record", "stores", "windows"]
