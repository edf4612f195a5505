"""Work in the background of the copy, in no transaction of it: what does not go well never holds up or ends a flow.

- ``periodic``: a thread that does a piece of work again and again.
- ``heartbeats`` of pairs of clusters. ``acls``: access rights of topics.
- ``offset_syncs``: the way back to MirrorMaker 2.
- ``presence``: a driver's sign of life, and how a standby waits for its end.
- ``internal_topics``: topics of MirrorMaker 2's own.
"""
