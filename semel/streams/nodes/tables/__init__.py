"""Nodes of tables that are made of other tables.

- ``old_values``: what was there before an update, for the nodes that ask for it.
- ``view``: what a table has for a key, where it has no store of its own.
- ``values``: filters, and functions of values.
- ``join``: joins of two tables; ``foreign_join``: by a foreign key; ``subscriptions``: what the two tell each other.
- ``regroup``, ``aggregate``: updates under other keys, through a repartition topic, and what they come to.
"""
