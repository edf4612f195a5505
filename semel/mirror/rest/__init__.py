"""REST of the mirror's process: Kafka Connect's paths and JSON, so that operators' tools for MirrorMaker 2 work.

Each flow is one connector, named as operators know it: ``A->B.MirrorSourceConnector``.

- ``app``: the routes, and who may ask. ``calls``: a request, and the flow that it is about.
- ``connectors``: what a flow does; pause, resume, stop, restart, of a flow or of one topic.
- ``flows``, ``page``: what browsers are shown; the folder ``page`` beside this package has its body and scripts.
- ``offsets``: its positions, in MirrorMaker 2's form. ``about``: ``/`` and ``/health``.
"""
