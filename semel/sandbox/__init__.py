"""A real Apache Kafka on this machine, for the demo, development and tests (DESIGN section 9).

- ``java``: a search for a Java that is new enough.
- ``jars``: Kafka's own jars, resolved once by the Ivy jar inside PySpark, kept in the user's cache with their
  checksums.
- ``ivy``: the jars from a Maven repository.
- ``class_archive``: their classes, parsed once, for brokers that start quickly.
- ``settings``: the properties of one node.
- ``security``: listeners with TLS, SASL and ACLs beside the plain one.
- ``ports``: free ports.
- ``watchdog``: the small process that ends a broker when the process that started it is gone, in any case.
- ``processes``: processes as the operating system knows them.
- ``readiness``: a check that a broker serves, by a Metadata request.
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
