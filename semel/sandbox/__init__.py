"""A real Apache Kafka on this machine, for the demo, development and tests (DESIGN section 9).

- ``java``: finds a Java that is new enough, or says how to get one.
- ``jars``: Kafka's own jars, resolved once by the Ivy jar inside PySpark, kept in the user's cache with their
  checksums.
- ``ivy``: resolves them from a Maven repository.
- ``class_archive``: their classes, parsed once, for brokers that start quickly.
- ``settings``: the properties of one node.
- ``security``: listeners with TLS, SASL and ACLs beside the plain one.
- ``ports``: ports that nobody else has.
- ``watchdog``: the small process that ends a broker when the process that started it is gone, however it went.
- ``processes``: what the operating system knows of processes.
- ``readiness``: asks a broker whether it serves, by a Metadata request.
- ``node``: one broker process: kill, freeze, thaw, stop, start again.
- ``cluster``: :class:`Sandbox`, one or more nodes.
- ``background``: the broker that ``semel broker start`` leaves running.

Not promised: secrecy (a plain listener on 127.0.0.1 is always there, and may do everything), Windows, and data that
outlives the power of this machine.
"""

from semel.sandbox.cluster import Sandbox
from semel.sandbox.jars import DEFAULT_VERSION, VERSION_VARIABLE, chosen_version, classpath
from semel.sandbox.java import find_java
from semel.sandbox.node import Node
from semel.sandbox.security import Secured

__all__ = [
    "DEFAULT_VERSION",
    "VERSION_VARIABLE",
    "Node",
    "Sandbox",
    "Secured",
    "chosen_version",
    "classpath",
    "find_java",
]
