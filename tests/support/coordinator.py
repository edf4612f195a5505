"""How the last transaction of an id has ended, by the coordinator's own word, which it writes down when every marker is
there.

Whoever commits is answered before: for a moment readers may not see the rows, and the coordinator refuses another owner
with 51.
"""

from __future__ import annotations

from semel.config import ClientConfig
from semel.wire.api.describe_transactions import describe
from semel.wire.client import Client
from tests.support.waiting import wait_for

ABORTED = "CompleteAbort"
_ENDED = ("CompleteCommit", ABORTED)


def wait_until_ended(servers: str, transactional_id: str, *states: str) -> None:
    """Wait for one of these states of the id; without any, for the end of its last transaction, whichever it is."""

    def ended() -> bool:
        found = describe(client, transactional_id)
        return found is not None and found.state in (states or _ENDED)

    with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
        wait_for(ended, f"{' or '.join(states or _ENDED)} of {transactional_id}")
