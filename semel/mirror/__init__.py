"""The mirror: one cluster's topics in another, each record once (KIP-656), by the file that MirrorMaker 2 is started
with.

A round of a flow is one transaction on the target cluster::

    properties -> topics -> positions -> flow: plan -> task: fetch, copy, write -> flow: prove, positions, commit

- ``properties``: the file, as a whole: which flows it enables, and what is refused in it. ``keys``: its keys, each
  with what becomes of it.
- ``policy``: what a topic is called on the target, and which topics are mirrored.
- ``topics``: target topics are made as the source's are, and grow with them.
- ``positions``: how far each source partition is copied, in the progress record on the target.
- ``copy``: what a batch that was fetched becomes: itself with another header, or encoded again. No requests.
- ``losses``: what ends a flow: rows of the source that are gone, targets that are not what was written to.
- ``task``: a Spark job over the partitions of a round, and what runs in its tasks.
- ``flow``: plans, runs the rounds, and begins again after what may pass.
"""
