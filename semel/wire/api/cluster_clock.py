"""The clock of the cluster, compared with that of this machine.

DescribeQuorum asks the leader of the metadata quorum. It reports itself as caught up at this moment, by its own clock
(measured). No other request without changes reports a broker's time. It needs Describe on the cluster.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from kafka.protocol.admin import DescribeQuorumRequest

from semel.errors import Unsupported
from semel.wire import error_codes
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.target import ANY

__all__ = ["Clock", "controller_clock"]

_LOG = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class Clock:
    """The lead of ``node``'s clock over this machine's in ms (negative if it is late). ``doubt_ms`` is half the time of
    the request.
    """

    node: int
    ahead_ms: float
    doubt_ms: float


def controller_clock(client: Client, deadline: Deadline | None = None) -> Clock:
    """Return the clock of the active controller. Raise :class:`~semel.errors.ConfigError` without the right to ask."""
    make = DescribeQuorumRequest.TopicData
    request = DescribeQuorumRequest(topics=[make(topic_name=_LOG, partitions=[make.PartitionData(partition_index=0)])])
    client.versions(deadline)  # connect first: the time of that must not count
    # take the times around the whole call: on a busy machine, the answer may be there before this thread reads its
    # clock
    asked = time.time()
    answer = client.ask(ANY, request, (1, 2), deadline=deadline)
    received = time.time()
    if answer.error_code:
        raise error_codes.error(
            "DescribeQuorum", answer.error_code, "asking for the controller's clock", "Nothing was changed."
        )
    (row,) = answer.topics[0].partitions
    caught_up = [voter.last_caught_up_timestamp for voter in row.current_voters if voter.replica_id == row.leader_id]
    if row.error_code or not caught_up or caught_up[0] <= 0:
        raise Unsupported("the controller does not report its time. Nothing was changed.", tag="NO_CLOCK")
    return Clock(row.leader_id, caught_up[0] - (asked + received) * 500, (received - asked) * 500)
