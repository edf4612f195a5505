"""The API versions that a broker speaks, and the features that its cluster has finalised (KIP-584).

Shared transactions need brokers of 4.0 or newer with ``transaction.version`` 2 (DESIGN rule 8). 4.0 and 4.1 take a
late, repeated marker into the next transaction, and owners skip an epoch there (:mod:`semel.transaction.late_markers`).
The protection that they lack shows here as WriteTxnMarkers version 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.producer import InitProducerIdRequest, WriteTxnMarkersRequest

from semel.errors import Unsupported

__all__ = ["Versions"]

#: The newest ``metadata.version`` that a broker supports gives its release, without the third number (measured).
_RELEASES = {21: "3.9", 25: "4.0", 27: "4.1", 29: "4.2", 30: "4.3", 33: "4.4"}


@dataclass(frozen=True, slots=True)
class Versions:
    """The answer of one broker to ApiVersions.

    ``features`` are finalised for the cluster, ``supported`` are the highest levels of this broker.
    """

    address: str
    ranges: Mapping[int, tuple[int, int]]
    features: Mapping[str, int]
    supported: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, answer: Any, address: str) -> Versions:
        """Build it from an ApiVersions response."""
        ranges = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        features = {row.name: row.max_version_level for row in answer.finalized_features or ()}
        supported = {row.name: row.max_version for row in answer.supported_features or ()}
        return cls(address, ranges, features, supported)

    @property
    def release(self) -> str | None:
        """The broker's release, as ``4.3``. None if semel does not know it."""
        return _RELEASES.get(self.supported.get("metadata.version", -1))

    @property
    def markers(self) -> int:
        """The newest version of WriteTxnMarkers. Version 2 separates a late, repeated marker from a current one."""
        return self.ranges.get(WriteTxnMarkersRequest.API_KEY, (0, 0))[1]

    @property
    def takes_late_markers(self) -> bool:
        """True before 4.2: a late, repeated marker of one transaction ends the rows of the next one, if it may."""
        return self.markers < 2

    @property
    def offers_two_phase_commit(self) -> bool:
        """True if InitProducerId can ask for a transaction that is never aborted (version 6, KIP-939)."""
        return self.ranges.get(InitProducerIdRequest.API_KEY, (0, 0))[1] >= 6

    def pick(self, request_type: Any, lowest: int, highest: int) -> int:
        """Return the highest version that both sides speak. Raise :class:`Unsupported` if there is none."""
        low, high = self.ranges.get(request_type.API_KEY, (0, -1))
        version = min(high, highest, int(request_type.max_version))
        if version < max(low, lowest):
            raise Unsupported(
                f"the broker at {self.address} speaks {request_type.__name__} versions {low} to {high}; semel needs"
                f" at least version {lowest}. Nothing was written. Upgrade the broker to Kafka 4.0 or newer."
            )
        return version

    def check_shared_transactions(self) -> None:
        """Check that this broker can share transactions (DESIGN rule 8).

        Raise :class:`Unsupported` for a level of the feature ``transaction.version`` below 2, which is also said of
        brokers before 4.0.
        """
        level = self.features.get("transaction.version", 0)
        if level < 2:
            raise Unsupported(
                f"the cluster of {self.address} has finalised transaction.version={level}, and shared transactions"
                " need 2. Nothing was written; reading works on 3.9 and newer. Upgrade the brokers to 4.0 or newer,"
                f" then run: bin/kafka-features.sh --bootstrap-server {self.address} upgrade --feature"
                " transaction.version=2"
            )
