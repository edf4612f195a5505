"""The right that a broker missed when it refused, by the request and its subject.

``docs/security.md`` lists the rights by role.
"""

from __future__ import annotations

from typing import Final

__all__ = ["advice"]

#: The code of a refusal, and its subject.
_SUBJECTS: Final = {29: "topic", 30: "group", 31: "cluster", 53: "transactional id"}
#: The operation of Kafka's ACLs that each request needs. Requests that are not listed need Describe.
_OPERATIONS: Final = {
    ("Produce", 29): "Write",
    ("Produce", 53): "Write",
    ("Fetch", 29): "Read",
    ("AddPartitionsToTxn", 29): "Write",
    ("AddPartitionsToTxn", 53): "Write",
    ("InitProducerId", 31): "IdempotentWrite",
    ("InitProducerId", 53): "Write",
    ("EndTxn", 53): "Write",
    ("TxnOffsetCommit", 29): "Read",
    ("TxnOffsetCommit", 30): "Read",
    ("TxnOffsetCommit", 53): "Write",
    ("DescribeProducers", 29): "Read",
    ("WriteTxnMarkers", 31): "Alter",
    ("CreateAcls", 31): "Alter",
    ("DescribeConfigs", 29): "DescribeConfigs",
    ("DescribeConfigs", 31): "DescribeConfigs",
    ("IncrementalAlterConfigs", 29): "AlterConfigs",
    ("JoinGroup", 30): "Read",
    ("SyncGroup", 30): "Read",
    ("Heartbeat", 30): "Read",
    ("LeaveGroup", 30): "Read",
    ("OffsetCommit", 29): "Read",
    ("OffsetCommit", 30): "Read",
    ("CreateTopics", 29): "Create",
    ("CreateTopics", 31): "Create",
}
_IMPLIED: Final = {29: "Read and Write imply", 30: "Read implies", 31: "Alter implies", 53: "Write implies"}


def advice(api: str, code: int) -> str:
    """Return the grant to make, to follow "… answered NAME: ". Empty for a code that is not about rights."""
    if code not in _SUBJECTS:
        return ""
    operation = _OPERATIONS.get((api, code), "Describe")
    implied = f", which {_IMPLIED[code]}" if operation == "Describe" else ""
    return f"the right {operation} on the {_SUBJECTS[code]} is missing{implied}. Grant it, or use a login that has it."
