"""What an operator does to a flow while it runs, and while it does not.

- ``wanted``: paused, stopped or running: a progress record of its own on the target, which any process may change.
- ``offsets``: positions that are shown and set, also in MirrorMaker 2's form.
- ``watch``: a running flow sees a change of it within about a second.
"""
