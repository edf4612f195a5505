"""The demo of ``semel demo``: the same pipeline with semel and at least once, killed the same way, counted by an
independent client.

``orders`` writes the input, ``pipeline`` is the program that is killed (fifteen lines that a user would write),
``show`` runs and kills it, ``report`` prints what a read_committed reader sees.

The other demos, one for each product, are in ``examples/demos``.
"""
