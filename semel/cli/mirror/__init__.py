"""``semel mirror``: ``commands`` runs and checks flows. ``status``, ``adopt``, ``resolve``, ``pause``, ``offsets`` and
``translate`` are commands of their own, for the flow that ``flow_of`` finds. ``live`` shows the progress in a terminal.
"""
