"""The flows that a file of MirrorMaker 2 asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from semel.mirror.policy import ReplicationPolicy
from semel.mirror.topic_filter import TopicFilter

__all__ = ["FlowConfig", "MirrorConfig"]


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """One flow. The properties are those of its clients, and hold secrets: they are not shown.

    ``start`` is where a flow that has copied nothing begins. Intervals are in seconds: ``refresh_s`` is 0 where topics
    are looked for once, and the others are 0 where nothing is to be done. ``checkpoints_replication`` is None where the
    file is silent. ``back`` are the topics of the flow in the other direction, where both keep names and that one is
    enabled too. ``skips_deleted``: rows that retention has deleted on the source are passed over.
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
    skips_deleted: bool = False
    back: TopicFilter | None = None

    @property
    def title(self) -> str:
        """``A->B``."""
        return f"{self.policy.source}->{self.policy.target}"


@dataclass(frozen=True, slots=True)
class MirrorConfig:
    """The flows that are enabled, the keys that change nothing here, and what MirrorMaker 2 would do beside and this
    does not.
    """

    flows: tuple[FlowConfig, ...]
    accepted: tuple[str, ...]
    not_done: tuple[str, ...]

    def flow(self, source: str, target: str) -> FlowConfig | None:
        """Return the flow between two clusters if it is enabled."""
        return next((f for f in self.flows if (f.policy.source, f.policy.target) == (source, target)), None)
