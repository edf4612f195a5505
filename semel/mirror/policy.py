"""The names of topics on the target cluster: a class a policy, by the names of MirrorMaker 2.

The methods are those of Kafka's interface ``ReplicationPolicy`` that a flow needs. Another policy is another class
here, and its name in :data:`POLICIES`.

Never mirrored, whatever the policy and the file say: what brokers, Connect, MirrorMaker 2 and semel keep for
themselves. semel's own topics change with each round, so two opposite flows would feed each other for ever.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from semel.transaction.progress.topic import DEFAULT_TOPIC

__all__ = [
    "HEARTBEATS",
    "KEEPS_NAMES",
    "POLICIES",
    "DefaultReplicationPolicy",
    "IdentityReplicationPolicy",
    "ReplicationPolicy",
]

#: The topic of heartbeats on the cluster that they are written to.
HEARTBEATS: Final = "heartbeats"
#: What the names of semel's own topics of the mirror begin with.
_OWN = "semel-mirror-"
_INTERNAL = "internal to brokers, Connect or MirrorMaker 2"


@dataclass(frozen=True, slots=True)
class ReplicationPolicy(ABC):
    """The naming of a flow's topics on its target.

    Without ``internal_separator_enabled`` MirrorMaker 2's own topics keep the dot, whatever the separator is.
    ``clusters`` are the aliases of the file: a name that begins with another word is that of a user's topic.
    """

    source: str
    target: str
    separator: str = "."
    internal_separator_enabled: bool = True
    clusters: tuple[str, ...] = ()

    @property
    @abstractmethod
    def recorded_name(self) -> str:
        """The name of this naming in progress records: a flow keeps the one that it began with."""

    @abstractmethod
    def format_remote_topic(self, topic: str) -> str:
        """Return the name of a source topic on the target."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that a topic was mirrored from; None where its name does not say."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str:
        """Return a topic's name on the cluster that it was mirrored from."""

    @abstractmethod
    def original_topic(self, topic: str) -> str:
        """Return a topic's name on the first cluster."""

    @property
    def checkpoints_topic(self) -> str:
        """The topic on the target that holds the checkpoints of the source's groups."""
        return f"{self.source}{self._checkpoints_suffix}"

    def offset_syncs_topic(self, *, on_source: bool) -> str:
        """Return the topic of offset syncs: its name has the other cluster's alias."""
        suffix = self._internal_suffix
        alias = self.target if on_source else self.source
        return f"mm2-offset-syncs{suffix.removesuffix('internal')}{alias}{suffix}"

    @property
    def _internal_suffix(self) -> str:
        return f"{self.separator if self.internal_separator_enabled else '.'}internal"

    @property
    def _checkpoints_suffix(self) -> str:
        return f"{self._internal_suffix.removesuffix('internal')}checkpoints{self._internal_suffix}"

    def is_internal_topic(self, topic: str) -> bool:
        """Return whether a topic is internal to brokers, Connect or MirrorMaker 2."""
        ends = ("-internal", ".internal", self._checkpoints_suffix)
        of_mirror_maker = topic.startswith("mm2") and topic.endswith(self._internal_suffix)
        return of_mirror_maker or topic.startswith(("__", ".")) or topic.endswith(ends)

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Return whether a topic holds heartbeats, of whichever cluster. Other mirrors may have named clusters."""
        return topic == HEARTBEATS or topic.endswith(f"{self.separator}{HEARTBEATS}")

    def refused(self, topic: str) -> str | None:
        """Why a source topic is never mirrored; None where it may be."""
        original = self.original_topic(topic)
        if self.is_internal_topic(topic):
            return _INTERNAL
        if original == DEFAULT_TOPIC or original.startswith(_OWN):
            return "semel's own"
        return f"it has come from {self.target}" if self._came_from_target(topic) else None

    def returns_names(self, back: ReplicationPolicy) -> bool:
        """Return whether the flow in the other direction would send a topic back under the name that it came with."""
        return back.format_remote_topic(self.format_remote_topic("topic")) == "topic"

    def _without_aliases(self, topic: str) -> str:
        prefixes = [f"{alias}{self.separator}" for alias in (self.source, self.target, *self.clusters)]
        while matching := [prefix for prefix in prefixes if topic.startswith(prefix)]:
            topic = topic.removeprefix(max(matching, key=len))
        return topic

    def _alias_before(self, topic: str) -> str | None:
        """Return the alias of the file that a name begins with, the longest: one may hold the separator."""
        aliases = (self.source, self.target, *self.clusters)
        return max((one for one in aliases if topic.startswith(f"{one}{self.separator}")), key=len, default=None)

    def _came_from_target(self, topic: str) -> bool:
        while (alias := self.topic_source(topic)) is not None:
            if alias == self.target:
                return True
            topic = self.upstream_topic(topic)
        return False


class DefaultReplicationPolicy(ReplicationPolicy):
    """Puts the source's alias before the name, so a record that came from the target is not sent back."""

    __slots__ = ()

    @property
    def recorded_name(self) -> str:
        """The policy, and the separator."""
        return f"default{self.separator}"

    def format_remote_topic(self, topic: str) -> str:
        """Return the alias and the name."""
        return f"{self.source}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the file that is before the name, or else its first word, if it is not the only one."""
        alias, separator, _ = topic.partition(self.separator)
        return self._alias_before(topic) or (alias if separator else None)

    def upstream_topic(self, topic: str) -> str:
        """Return the name without that."""
        alias = self._alias_before(topic)
        return topic.partition(self.separator)[2] if alias is None else topic.removeprefix(f"{alias}{self.separator}")

    def original_topic(self, topic: str) -> str:
        """Return the name without the aliases of the file that are before it."""
        return self._without_aliases(topic)


class IdentityReplicationPolicy(ReplicationPolicy):
    """Keeps the source's names: they do not say where a topic comes from.

    Heartbeats alone are named as by :class:`DefaultReplicationPolicy`: each cluster has its own, and their names show
    the way that they have come. A topic of another name that ends so is a user's, and keeps it.
    """

    __slots__ = ()

    @property
    def recorded_name(self) -> str:
        """The policy: the separator changes nothing."""
        return "identity"

    def format_remote_topic(self, topic: str) -> str:
        """Return the name as it is; of heartbeats, the alias and the name."""
        return f"{self.source}{self.separator}{topic}" if self.is_heartbeats_topic(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        """Return None: no name but that of heartbeats says it."""
        return self._first_alias(topic)

    def upstream_topic(self, topic: str) -> str:
        """Return the name as it is; of heartbeats, the name without the first alias."""
        alias = self._first_alias(topic)
        return topic if alias is None else topic.removeprefix(f"{alias}{self.separator}")

    def original_topic(self, topic: str) -> str:
        """Return the name as it is; of heartbeats, the name without aliases."""
        return HEARTBEATS if self.is_heartbeats_topic(topic) else topic

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Return whether a topic holds heartbeats of a cluster of the file."""
        return self._without_aliases(topic) == HEARTBEATS

    def _first_alias(self, topic: str) -> str | None:
        return self._alias_before(topic) if self.is_heartbeats_topic(topic) else None


#: The policy under which topics keep their names.
KEEPS_NAMES: Final = IdentityReplicationPolicy.__name__
#: The policies, by the last part of their names in ``replication.policy.class``.
POLICIES: Final[Mapping[str, type[ReplicationPolicy]]] = {
    policy.__name__: policy for policy in (DefaultReplicationPolicy, IdentityReplicationPolicy)
}
