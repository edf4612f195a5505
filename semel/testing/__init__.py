"""What tests of semel, and of programs that use it, are made with. Public.

- ``fixtures``: pytest fixtures ``kafka`` and ``kafka3``, a real Kafka of one or three nodes, and ``spark_cluster``.
- ``step_log``: a log of all steps, which survives a kill. ``crash``: strikes a process at a named step, beside that log. ``program``: runs programs
  under such a plan, and starts them again.
- ``spark``: a Spark that starts quickly, with executors in processes of their own; ``spark_home``, its query ``warm_up``, ``fork_server`` with
  ``fork_client``, and ``daemon`` are what makes it quick.
- ``proxy``: a TCP proxy in front of a broker that understands frame headers, and delays, repeats, drops or cuts. ``faults``: what it does to a
  request. ``frames`` and ``addresses``: what it reads of requests, and replaces in answers.
- ``history``: reports lost, duplicated, reordered, torn. ``records``: reads the topics for it, with an independent client.

Nothing is imported here: each of them needs other packages (pip install 'semel[testing]').
"""
