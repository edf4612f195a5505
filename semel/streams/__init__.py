"""Streams: functions, state, windows and joins over topics, where state, output and offsets commit together.

- ``app``: an application; ``settings``: its properties; ``app_file``: the file that holds one; ``dsl``: what it is
  built of, in Kafka Streams' words.
- ``windows``, ``cells``, ``rows``, ``clock``: windows of time, numbers as bytes, rows on their way, the time.
- ``processor``: classes of one's own that work on single records, and the stores that they are given.
- ``topology``: nodes and sub-topologies; ``nodes``: what they do; ``dropped``: what they drop, counted;
  ``handlers``: what becomes of bad records.
- ``worker``: a member of the group, its tasks and its transaction; ``state``: what a task keeps; ``topics``: those that
  belong to an application; ``metrics``: what a worker has done, for Prometheus.
- ``avro``, ``json_schema``, ``protobuf``, ``own``: serdes with a registry, and of two functions.
- ``lookup``: what a store holds, by its changelog; ``reset``: begin again from the input.
- ``testing``: a driver without a broker.
"""

from semel.serdes.registry_serde import avro, json_schema, protobuf
from semel.serdes.serde import own
from semel.streams import windows
from semel.streams.app import App
from semel.streams.dsl.suppressed import EmitStrategy, Suppressed
from semel.streams.processor import stores
from semel.streams.processor.processor import Context, Processor, PunctuationType
from semel.streams.rows import Record

__all__ = [
    "App",
    "Context",
    "EmitStrategy",
    "Processor",
    "PunctuationType",
    "Record",
    "Suppressed",
    "avro",
    "json_schema",
    "own",
    "protobuf",
    "stores",
    "windows",
]
