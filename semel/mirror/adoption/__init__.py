"""Take over a flow that another program has copied until now, or whose positions are lost.

The first positions of the flow are committed on the target, and the first round begins there::

    origin: where a partition stands -> placing: is that so, by the rows of both clusters -> plan -> one transaction

- ``adopt``: start here: what would be done, and doing it.
- ``origins``: a group, a time, a file. ``mirror_maker``: MirrorMaker 2's offsets topic; it is fenced first.
  ``own_traces``: what the flow itself has left on the target.
- ``plan``: where each partition begins, and what is refused.
- ``windows``: the last records of both sides, as fingerprints. ``placing``: where the target's last records are in the
  source. No requests.
"""
