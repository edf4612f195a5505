"""Kafka Connect's REST interface, served in the worker's process.

==============  ======================================================================================================
``app``         the routes, on the server of ``semel.web``
``calls``       one request, its JSON, and the status of each error
``connectors``  ``/connectors``: create, configure, pause, stop, restart, delete
``forwarding``  requests that a worker hands on to the leader of its group
``offsets``     ``/connectors/{name}/offsets``
``plugins``     ``/connector-plugins``: classes, their settings, validation
``about``       ``/``, ``/health``, ``/admin/loggers``; ``/semel/tasks``, which Kafka Connect has not
``page``        the page for browsers: what fills the shell of ``semel.web``
==============  ======================================================================================================
"""
