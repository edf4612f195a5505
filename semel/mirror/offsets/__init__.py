"""Where source offsets came to lie on the target, and what follows from it.

- ``segments``: runs in which both offsets rise together; each round adds its own. ``segment_topic``: where they are
  kept.
- ``translation``: offsets of one cluster as offsets of the other, both ways.
- ``groups``: checkpoints of MirrorMaker 2, and groups that follow. ``formats``: its bytes.
"""
