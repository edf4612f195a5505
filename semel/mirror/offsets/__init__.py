"""The offsets of source records on the target, and the translation that follows from them.

- ``segments``: runs in which both offsets rise together; each round adds its own. ``segment_topic``: where they are
  kept.
- ``translation``: offsets of one cluster as offsets of the other, both ways.
- ``checkpoints``: those that the target has already.
- ``groups``: checkpoints of MirrorMaker 2, and groups that follow.
"""
