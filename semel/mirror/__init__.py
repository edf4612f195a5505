"""The mirror: one cluster's topics in another, each record once (KIP-656), by the file that MirrorMaker 2 is started
with.

A round of a flow is one transaction on the target cluster::

    config -> topics -> positions -> rounds: what is new -> driver_copy, or plan and task: fetch, copy, write
        -> round: prove, segments, commit

- ``config``: the file: which flows it enables, and what is refused in it.
- ``flow``: start here: flows side by side, each begun again after what may pass (``tries``). ``session``: a flow
  between taking over and letting go. ``rounds``: what is new, and who copies it. ``round``: one transaction, from its
  tickets to its commit, with ``group_view``, KIP-656's group.
- ``driver_copy``: a small round, copied by the driver from a Fetch that waits at the source. ``plan``, ``task``: a
  larger one, shared out to the tasks of a Spark job. ``share``: the copying with one ticket, for both. ``copy``: what
  a batch that was fetched becomes: itself with another header, or encoded again. No requests.
- ``policy``: what a topic is called on the target, and what is never mirrored. ``topic_filter``: the choice of topics
  and groups. ``topics``: target topics are made as the source's are, and follow them.
- ``positions``: how far each source partition is copied, in the progress record on the target.
- ``rights``: what a login lacks, named before anything is written. ``own_topics``: what a mirror makes for itself.
- ``following``: the topics of a flow that was taken over. ``stops``: what is stopped while the rest is copied.
- ``losses``: what stops topics: rows of the source that are gone, targets that are not what was written to.
  ``resolution``: how they resume then.
- ``adoption``: a flow that another program has copied until now is taken over.
- ``offsets``: offsets of one cluster as offsets of the other; groups that follow.
- ``background``: heartbeats, access rights of topics: in threads of their own. ``formats``: MirrorMaker 2's bytes.
- ``operation``: what an operator wants: paused, stopped, positions that are set. ``rest``: the same by REST.
- ``status``, ``meter``, ``metrics``: how far it has come.
"""
