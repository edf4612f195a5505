"""Kafka Connect's REST interface, served in the worker's process.

==============  ======================================================================================================
``server``      listens, and serves on threads of its own
``app``         the routes; who may ask: Host and Origin are checked
``calls``       one request, its JSON, and what an error answers
``connectors``  ``/connectors``: create, configure, pause, stop, restart, delete
``forwarding``  requests that a worker hands on to the leader of its group
``offsets``     ``/connectors/{name}/offsets``
``plugins``     ``/connector-plugins``: classes, their settings, validation
``about``       ``/``, ``/health``, ``/admin/loggers``; ``/semel/tasks``, which Kafka Connect has not
``web``         the page for browsers
==============  ======================================================================================================
"""
