"""A model of the protocol: every order of events, tried. ``README.md`` beside this file says what it is, and how to
read what it prints.

- ``requests``: what can be asked, and the names of partitions and answers. ``broker``: Kafka's answers, as measured.
  ``progress``: the log of the progress partition.
- ``owner``: the procedure, PROTOCOL 2 to 5, as generators. ``query``: Spark around it, PROTOCOL 6. ``process``: how
  generators become values. ``breaks``: the procedure broken on purpose.
- ``two_phase_owner``, ``two_phase``, ``two_phase_settings``: prepared transactions whose decisions are in a database,
  in the same way. ``task_scope``: transactions of tasks for which an owner decides.
- ``world``: one state of everything. ``faults``: what may happen next. ``check``: what must hold.
- ``explore``: all states, or random walks. ``settings``: what is explored. ``trace``: what was found, in words.
- ``replay``: step logs of real runs, accepted or refused by the same procedure. ``replay_driver`` and ``frontier`` are
  its parts.
"""
