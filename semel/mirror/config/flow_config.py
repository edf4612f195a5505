"""The flows that a file of MirrorMaker 2 asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from semel.config import ClientConfig
from semel.mirror.config.rest import MirrorRest
from semel.mirror.policy import ReplicationPolicy
from semel.mirror.topic_filter import TopicFilter

__all__ = ["FlowConfig", "HeartbeatConfig", "MirrorConfig", "OffsetSyncConfig"]


@dataclass(frozen=True, slots=True)
class OffsetSyncConfig:
    """The offset syncs of a flow. They lie on its source or its target; ``most_lag`` is ``offset.lag.max``.

    ``replication`` is None where the file is silent.
    """

    on_source: bool
    most_lag: int
    replication: int | None


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """One flow. The properties are those of its clients, and hold secrets: they are not shown.

    ``start`` is where a flow that has copied nothing begins. Intervals are in seconds: ``refresh_s`` is 0 where topics
    are looked for once, and the others are 0 where nothing is to be done. ``checkpoints_replication`` is None where the
    file is silent. ``back`` are the topics of the flow in the other direction, where both keep names and that one is
    enabled too. ``skips_deleted``: rows that retention has deleted on the source are passed over. ``copies_heartbeats``
    holds also where ``topics`` does not name them. ``offset_syncs`` is None where none are written. A round of at
    most ``driver_copies`` offsets is copied by the driver.
    """

    policy: ReplicationPolicy
    topics: TopicFilter
    source: Mapping[str, str] = field(repr=False)
    target: Mapping[str, str] = field(repr=False)
    start: str
    replication_factor: int
    refresh_s: int
    exactly_once: bool
    groups: TopicFilter
    configs_s: int
    left_out_configs: tuple[re.Pattern[str], ...]
    checkpoints_s: int
    checkpoints_replication: int | None
    sync_groups_s: int
    acls_s: int = 0
    copies_heartbeats: bool = False
    skips_deleted: bool = False
    back: TopicFilter | None = None
    offset_syncs: OffsetSyncConfig | None = None
    driver_copies: int = 10_000

    @property
    def title(self) -> str:
        """``A->B``."""
        return f"{self.policy.source}->{self.policy.target}"

    @property
    def read_committed(self) -> bool:
        """False where the file asks for all rows of the source, aborted ones too."""
        return ClientConfig.parse(self.source).isolation_level == "read_committed"

    def asks_for(self, topic: str) -> bool:
        """Return whether the file asks for a source topic."""
        return self.topics.matches(topic) or (self.copies_heartbeats and self.policy.is_heartbeats_topic(topic))


@dataclass(frozen=True, slots=True)
class HeartbeatConfig:
    """The heartbeats of a pair of clusters, which are written to its target. ``client`` holds secrets.

    ``replication`` is None where the file is silent.
    """

    source: str
    target: str
    client: Mapping[str, str] = field(repr=False)
    interval_s: int
    replication: int | None

    @property
    def title(self) -> str:
        """``A->B``."""
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True)
class MirrorConfig:
    """The flows that are enabled, and the keys that change nothing here. Heartbeats are of all pairs of clusters, also
    of those without a flow. ``rest`` is None where the process serves none.
    """

    flows: tuple[FlowConfig, ...]
    heartbeats: tuple[HeartbeatConfig, ...]
    accepted: tuple[str, ...]
    rest: MirrorRest | None = None

    def flow(self, source: str, target: str) -> FlowConfig | None:
        """Return the flow between two clusters if it is enabled."""
        return next((f for f in self.flows if (f.policy.source, f.policy.target) == (source, target)), None)
