"""The demo of ``semel demo``: the same pipeline with semel and at least once, killed the same way, counted by an
independent client.

``orders`` writes the input, ``pipeline`` is the program that is killed (fifteen lines that a user would write),
``show`` runs and kills it, ``report`` prints what a read_committed reader sees.

``connect`` is ``make connect-demo``: a file and a database into topics. ``streams`` is ``make streams-demo``: a
windowed count, by the programs of ``views``. ``two_phase`` is ``make twophase-demo``: a database and a topic, written
by ``shop``. ``mirror`` is ``make mirror-demo``: a topic of one cluster on another.
"""
