"""State of tasks.

- ``state_store``: what is committed lies in a backend, what is not is kept beside it.
- ``backend``: what a backend does, and one in memory; ``rocks``: a backend on RocksDB.
- ``global_stores``: the stores of global tables.
- ``folders``: the folders of stores.
- ``changelog``: restoring a store from its topic, and when what lies on the disk is not to be believed.
"""
