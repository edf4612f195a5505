"""State of tasks.

- ``state_store``: what is committed lies in a backend, what is not is kept beside it.
- ``versions``: the versions of keys in a store, for a history.
- ``backend``: what a backend does, and one in memory; ``rocks``: a backend on RocksDB.
- ``global_stores``: the stores of global tables.
- ``folders``: the folders of stores.
- ``changelog``: what a store has to read of its topic, and when what lies on the disk is not to be believed.
- ``state_updater``: the thread that reads it, beside the work of other tasks.
"""
