"""Kafka's frames as a proxy needs them: size, API, version, correlation id; no bodies.

Deliberately independent of ``semel.wire``.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass

__all__ = ["APIS", "Request", "api_key", "correlation_of", "read_frame"]

#: Kafka's names of the APIs that clients use, by their keys.
APIS = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    15: "DescribeGroups",
    16: "ListGroups",
    17: "SaslHandshake",
    18: "ApiVersions",
    19: "CreateTopics",
    20: "DeleteTopics",
    21: "DeleteRecords",
    22: "InitProducerId",
    23: "OffsetForLeaderEpoch",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    27: "WriteTxnMarkers",
    28: "TxnOffsetCommit",
    29: "DescribeAcls",
    30: "CreateAcls",
    31: "DeleteAcls",
    32: "DescribeConfigs",
    33: "AlterConfigs",
    35: "DescribeLogDirs",
    36: "SaslAuthenticate",
    37: "CreatePartitions",
    42: "DeleteGroups",
    43: "ElectLeaders",
    44: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments",
    46: "ListPartitionReassignments",
    47: "OffsetDelete",
    55: "DescribeQuorum",
    57: "UpdateFeatures",
    60: "DescribeCluster",
    61: "DescribeProducers",
    65: "DescribeTransactions",
    66: "ListTransactions",
    68: "ConsumerGroupHeartbeat",
    69: "ConsumerGroupDescribe",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
    75: "DescribeTopicPartitions",
}

_HEADER = struct.Struct(">hhi")
#: A larger frame is no Kafka frame: another protocol's bytes read as a length.
_MAX_FRAME = 1 << 30


@dataclass(frozen=True, slots=True)
class Request:
    """A request frame, without its four bytes of length."""

    frame: bytes
    key: int
    version: int
    correlation: int

    @classmethod
    def read(cls, frame: bytes) -> Request:
        """Read the header."""
        if len(frame) < _HEADER.size:
            raise ConnectionError(f"a request of {len(frame)} bytes has no header")
        return cls(frame, *_HEADER.unpack_from(frame))

    @property
    def api(self) -> str:
        """Kafka's name of the API, or its key if this table has no name for it."""
        return APIS.get(self.key, str(self.key))

    def renumbered(self, correlation: int) -> bytes:
        """Return the same bytes with another correlation id."""
        return _HEADER.pack(self.key, self.version, correlation) + self.frame[_HEADER.size :]


def api_key(name: str) -> int:
    """Return the key of an API by Kafka's name. Raise :class:`ValueError` for another name."""
    keys = {api: key for key, api in APIS.items()}
    if name not in keys:
        raise ValueError(
            f"{name!r} is not the name of a Kafka API that clients use; there are: {', '.join(sorted(keys))}"
        )
    return keys[name]


def correlation_of(answer: bytes) -> int:
    """Return the correlation id of an answer frame."""
    if len(answer) < 4:
        raise ConnectionError(f"an answer of {len(answer)} bytes has no header")
    return int.from_bytes(answer[:4], "big", signed=True)


async def read_frame(source: asyncio.StreamReader) -> bytes | None:
    """Read the next frame. Return None at the end of the stream, also in the middle of a frame."""
    try:
        size = int.from_bytes(await source.readexactly(4), "big", signed=True)
        if not 0 <= size <= _MAX_FRAME:
            raise ConnectionError(f"a frame of {size} bytes was announced: that is not Kafka's protocol")
        return await source.readexactly(size)
    except asyncio.IncompleteReadError:
        return None
