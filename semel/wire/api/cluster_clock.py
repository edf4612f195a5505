"""The clock of the cluster, against that of this machine.

The leader of the metadata quorum, asked by DescribeQuorum, names itself as having caught up at this very moment, by its
own clock (measured). No other request that changes nothing tells a broker's time. Needs Describe on the cluster.
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
    """By how many ms the clock of ``node`` is ahead of this machine's (behind, if negative), give or take half the time
    that the question took.
    """

    node: int
    ahead_ms: float
    doubt_ms: float


def controller_clock(client: Client, deadline: Deadline | None = None) -> Clock:
    """The clock of the active controller. Raises :class:`~semel.errors.ConfigError` without the right to ask."""
    make = DescribeQuorumRequest.TopicData
    request = DescribeQuorumRequest(topics=[make(topic_name=_LOG, partitions=[make.PartitionData(partition_index=0)])])
    client.versions(deadline)  # so that no connection has to be made in between
    # not between the sending and its answer: on a busy machine, the answer may be there before this thread has looked
    # at its clock
    asked = time.time()
    answer = client.ask(ANY, request, (1, 2), deadline=deadline)
    received = time.time()
    if answer.error_code:
        raise error_codes.error(
            "DescribeQuorum", answer.error_code, "asking for the controller's clock", "Nothing was changed."
        )
    (row,) = answer.topics[0].partitions
    told = [voter.last_caught_up_timestamp for voter in row.current_voters if voter.replica_id == row.leader_id]
    if row.error_code or not told or told[0] <= 0:
        raise Unsupported("the controller does not report its time. Nothing was changed.", tag="NO_CLOCK")
    return Clock(row.leader_id, told[0] - (asked + received) * 500, (received - asked) * 500)
