"""Task scope, ``format("semel")`` as a sink: one transaction an attempt of a task, and the owner's commit decides for
all of them (``docs/protocol.md``, section 7).

``roles``: the driver and the attempts of tasks, as generators, and the mistakes of the controls. ``scene``: one state
of everything, and what may happen next. ``settings``: what is explored.
"""
