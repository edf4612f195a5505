"""The file that MirrorMaker 2 is started with.

- ``properties``: start here: the file as a whole, and which flows it enables. ``file_keys``: each key in its place, and
  what is refused in it. ``clients``: the clients of a flow, by all spellings.
- ``rest``: its keys for REST.
- ``keys``: its keys, each with what becomes of it.
- ``flow_config``: what it asks for, flow by flow.
"""
