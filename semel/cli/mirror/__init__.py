"""``semel mirror``: ``commands`` runs and checks flows; ``status``, ``adopt``, ``resolve`` and ``translate`` are
commands of their own; ``live`` shows the progress in a terminal.
"""
