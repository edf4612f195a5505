"""Settings of workers and connectors, by Kafka Connect's names.

- ``worker_config``: a worker's file, checked as a whole.
- ``connector_config``: a connector's configuration, each problem at its setting; ``preflight`` asks the connector
  whether it can do what is wanted (KIP-618).
- ``sink_config``: what a sink reads, and the settings of its consumer group.
- ``connector_properties``: a connector's properties as they are read, and the problems with them.
- ``definitions``: settings that all connectors have, as REST shows them.
- ``clients``: the worker's clients, with what a connector overrides (KIP-458).
"""
