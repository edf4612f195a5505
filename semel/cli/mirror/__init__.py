"""``semel mirror``: ``commands`` runs and checks flows; ``status``, ``resolve`` and ``translate`` are commands of their
own; ``live`` shows the progress in a terminal.
"""
