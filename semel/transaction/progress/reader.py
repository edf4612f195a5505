"""What was committed under a transactional id, for somebody who does not own it (PROTOCOL 6,
``startingOffsets=committed``).

Nothing is fenced: a look is a plain record that any process may write. Its offset bounds the read, and the answer is
given only when every record of that id below it is settled. Not promised: that the answer is still the newest when it
is used; a living owner goes on.
"""

from __future__ import annotations

from semel.errors import Retriable
from semel.transaction.progress.record import Progress, check_not_moved
from semel.transaction.progress.topic import DEFAULT_TOPIC, ProgressTopic
from semel.wire.client import Client
from semel.wire.deadline import Deadline

__all__ = ["committed_progress"]


def committed_progress(
    client: Client,
    transactional_id: str,
    *,
    scope: str = "query",
    progress_topic: str = DEFAULT_TOPIC,
    deadline: Deadline | None = None,
) -> Progress | None:
    """The newest committed progress; None where there is none, or no progress topic.

    Raises :class:`Retriable` if a transaction of this id stays open, :class:`~semel.errors.ConfigError` if another id
    has taken over.
    """
    deadline = deadline or client.deadline()
    progress = ProgressTopic(client, transactional_id, scope, progress_topic)
    if not progress.exists(deadline):
        return None
    while True:
        settled = progress.read(progress.write_read_barrier(), client.deadline())
        check_not_moved(settled, transactional_id)
        if not settled.open:
            return settled.newest.progress if settled.newest is not None else None
        if deadline.passed:
            raise Retriable(
                f"a transaction of {transactional_id!r} is still open after {deadline.timeout_ms:.0f} ms, so where it"
                " has got to is not settled. Nothing was read. Its owner may be at work: stop it. What one that has"
                " died left open, the broker ends after that owner's transaction.timeout.ms: start again then. If it"
                " stays for longer, its marker was lost: the next start of its owner heals that.",
                tag="PROGRESS_OPEN",
            )
        deadline.pause()
