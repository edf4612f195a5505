"""The file that MirrorMaker 2 is started with: which flows it enables, by what clients, and what is refused in it.

Each key is plain, of a cluster (``A.…``) or of a flow (``A->B.…``); the nearer one wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from semel.errors import ConfigError
from semel.mirror.config.clients import RESET, source_client, target_client, unread_keys
from semel.mirror.config.file_keys import FileKeys
from semel.mirror.config.flow_config import FlowConfig, HeartbeatConfig, MirrorConfig, OffsetSyncConfig
from semel.mirror.config.keys import NOTHING, START
from semel.mirror.config.rest import read_rest
from semel.mirror.policy import KEEPS_NAMES, POLICIES, ReplicationPolicy
from semel.mirror.topic_filter import TopicFilter, patterns
from semel.settings import properties_file
from semel.settings.providers import resolve

__all__ = ["read_properties"]

_POLICY = "replication.policy.class"
_JAVA = "org.apache.kafka.connect.mirror."
_IN_TOPICS = re.compile(r"[A-Za-z0-9._-]+")
_Pair = tuple[str, str]


def read_properties(path: Path, targets: Iterable[str] = ()) -> MirrorConfig:
    """Read a file; with ``targets``, only the flows into these clusters. Raises :class:`ConfigError`."""
    values = properties_file.read_properties(path, NOTHING)
    return _File(FileKeys(resolve(values)[1])).config(tuple(targets))


class _File:
    """The file as a whole."""

    def __init__(self, keys: FileKeys) -> None:
        self._keys = keys

    def config(self, targets: tuple[str, ...]) -> MirrorConfig:
        """Return the enabled flows, checked as a whole."""
        keys = self._keys
        for alias in targets:
            if alias not in keys.clusters:
                raise keys.unknown_cluster(f"--clusters {alias}")
        enabled = [pair for pair in keys.pairs() if keys.value(pair, "enabled")]
        chosen = [pair for pair in enabled if not targets or pair[1] in targets]
        if not chosen:
            raise ConfigError(
                "no flow is enabled"
                + (f" into {', '.join(targets)}" if targets else "")
                + ", so there is nothing to do."
                f" Nothing was copied. Enable one: {keys.clusters[0]}->{keys.clusters[1]}.enabled = true",
                tag="NO_FLOW",
            )
        flows = tuple(self._flow(pair, enabled) for pair in chosen)
        self._check_names(flows)
        rest, of_rest = read_rest(keys.plain)
        beating = [pair for pair in keys.pairs() if keys.value(pair, "emit.heartbeats.enabled")]
        return MirrorConfig(
            flows,
            tuple(self._heartbeats(pair) for pair in beating if not targets or pair[1] in targets),
            tuple(sorted({*keys.accepted, *unread_keys(keys, enabled, beating)} - of_rest)),
            rest,
        )

    def _check_names(self, flows: Iterable[FlowConfig]) -> None:
        """Refuse two flows under one name: they would take over from each other for ever."""
        titles = [flow.title for flow in flows]
        double = next((title for title in titles if titles.count(title) > 1), None)
        if double is not None:
            raise ConfigError(
                f"two flows are called {double} by source.cluster.alias or target.cluster.alias. Nothing was copied."
                " Take the alias out, or set another one for each flow.",
                tag="WRONG_VALUE",
            )

    def _flow(self, pair: _Pair, enabled: Iterable[_Pair]) -> FlowConfig:
        keys, (source, target) = self._keys, pair
        policy = self._policy(pair)
        back = (target, source) in enabled and policy.returns_names(self._policy((target, source)))
        exactly_once = keys.exactly_once(pair)
        reads = source_client(keys, pair, exactly_once=exactly_once)
        start = reads.pop(RESET, START.default)
        return FlowConfig(
            policy=policy,
            topics=self._filter(pair, "topics"),
            source=reads,
            target=target_client(keys, pair),
            start=start,
            replication_factor=keys.value(pair, "replication.factor"),
            refresh_s=keys.interval(pair, "refresh.topics"),
            exactly_once=exactly_once,
            groups=self._filter(pair, "groups"),
            configs_s=keys.interval(pair, "sync.topic.configs"),
            left_out_configs=tuple(patterns(*self._excluded(pair, "config.properties"))),
            checkpoints_s=keys.interval(pair, "emit.checkpoints"),
            checkpoints_replication=keys.value(pair, "checkpoints.topic.replication.factor"),
            sync_groups_s=keys.interval(pair, "sync.group.offsets"),
            acls_s=keys.interval(pair, "sync.topic.acls"),
            copies_heartbeats=keys.value(pair, "heartbeats.replication.enabled"),
            skips_deleted=keys.value(pair, "on.data.loss") == "skip",
            back=self._filter((target, source), "topics") if back else None,
            offset_syncs=self._offset_syncs(pair),
            driver_copies=keys.value(pair, "driver.copy.max.offsets"),
        )

    def _offset_syncs(self, pair: _Pair) -> OffsetSyncConfig | None:
        keys = self._keys
        location = keys.value(pair, "offset-syncs.topic.location")
        found = OffsetSyncConfig(
            location == "source",
            keys.value(pair, "offset.lag.max"),
            keys.value(pair, "offset-syncs.topic.replication.factor"),
        )
        return found if keys.value(pair, "emit.offset-syncs.enabled") else None

    def _heartbeats(self, pair: _Pair) -> HeartbeatConfig:
        """Return the heartbeats of a pair. By default all pairs have them: a flow copies those that the pair in the
        other direction writes.
        """
        keys, policy = self._keys, self._policy(pair)
        return HeartbeatConfig(
            policy.source,
            policy.target,
            target_client(keys, pair, check=False),
            keys.interval(pair, "emit.heartbeats"),
            keys.value(pair, "heartbeats.topic.replication.factor"),
        )

    def _policy(self, pair: _Pair) -> ReplicationPolicy:
        keys = self._keys
        key, name = keys.get_or_default(pair, _POLICY)
        policy = POLICIES.get(name.removeprefix(_JAVA))
        if policy is None:
            raise ConfigError(
                f"{key}={name:.200} is a class of Java's, which does not run here, so topics would be named another"
                f" way. Nothing was copied. Use one of {', '.join(_JAVA + each for each in POLICIES)}.",
                tag="WRONG_VALUE",
            )
        key, separator = keys.get_or_default(pair, "replication.policy.separator")
        keeps_names = policy is POLICIES[KEEPS_NAMES]
        if not _IN_TOPICS.fullmatch(separator) and not (keeps_names and not separator):
            raise ConfigError(
                f"{key}={separator!r:.100} cannot stand in the name of a topic. Nothing was copied. Use letters,"
                " digits, dots, dashes and underscores; to keep the names of topics, set"
                f" {_POLICY} = {_JAVA}{KEEPS_NAMES}.",
                tag="WRONG_VALUE",
            )
        internal = keys.value(pair, "replication.policy.internal.topic.separator.enabled")
        source, target = (self._alias(pair, side, keeps_names=keeps_names) for side in (0, 1))
        return policy(source, target, separator or ".", internal, tuple(keys.clusters))

    def _alias(self, pair: _Pair, side: int, *, keeps_names: bool) -> str:
        """Return the name that a flow gives to one of its clusters: the alias of the file, or the connector's."""
        key, alias = self._keys.get_or_default(pair, ("source.cluster.alias", "target.cluster.alias")[side])
        if alias is None or (keeps_names and not alias):
            return pair[side]
        if not _IN_TOPICS.fullmatch(alias):
            raise ConfigError(
                f"{key}={alias!r:.100} cannot stand in the name of a topic. Nothing was copied. Take it out; to keep"
                f" the names of topics, set {_POLICY} = {_JAVA}{KEEPS_NAMES}.",
                tag="WRONG_VALUE",
            )
        return str(alias)

    def _filter(self, pair: _Pair, name: str) -> TopicFilter:
        return TopicFilter.parse(self._keys.get_or_default(pair, name), self._excluded(pair, name))

    def _excluded(self, pair: _Pair, name: str) -> tuple[str, str]:
        """Return the key with the patterns that are left out. It has an older name too."""
        keys = self._keys
        older = None if keys.get(pair, f"{name}.exclude") else keys.get(pair, f"{name}.blacklist")
        return older or keys.get_or_default(pair, f"{name}.exclude")
