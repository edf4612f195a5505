"""The file that MirrorMaker 2 is started with.

- ``properties``: reads it as a whole: which flows it enables, by what clients, and what is refused in it.
- ``keys``: its keys, each with what becomes of it.
- ``flow_config``: what it asks for, flow by flow.
"""
