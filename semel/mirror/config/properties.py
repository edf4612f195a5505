"""The file that MirrorMaker 2 is started with: which flows it enables, by what clients, and what is refused in it.

Each key is plain, of a cluster (``A.…``) or of a flow (``A->B.…``); the nearer one wins. Nothing in the file is passed
over in silence:

- a key that cannot change which records arrive where is accepted, and listed once;
- one that would, and that this version does not do, is refused with the reason;
- an unknown one is refused with the nearest name.

One client speaks for all roles of a cluster: what ``consumer.`` and ``admin.`` say of the source, and ``producer.`` and
``admin.`` of the target, is laid over the cluster's own settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

from semel.config import ClientConfig, is_client_property
from semel.errors import ConfigError, SemelError
from semel.mirror.config.flow_config import FlowConfig, MirrorConfig
from semel.mirror.config.keys import (
    ACCEPTED,
    CLIENT,
    CLUSTER,
    FLOW,
    NOT_DONE,
    NOTHING,
    OF_CLUSTER_UNREAD,
    OVERRIDE,
    REFUSED,
    ROLES,
    START,
    is_accepted,
    is_shared,
)
from semel.mirror.policy import POLICIES, ReplicationPolicy
from semel.mirror.topic_filter import TopicFilter, patterns
from semel.settings import Setting, missing, nearest, properties_file, read_value, split_list, unknown
from semel.settings.providers import resolve

__all__ = ["read_properties"]

_ALIAS = re.compile(r"[A-Za-z0-9._-]+")
_POLICY = "replication.policy.class"
_JAVA = "org.apache.kafka.connect.mirror."
#: A switch of what is in NOT_DONE.
_NOT_DONE_HERE = Setting(bool, True)


def read_properties(path: Path, targets: Iterable[str] = ()) -> MirrorConfig:
    """Read a file; with ``targets``, only the flows into these clusters. Raises :class:`ConfigError`."""
    given = properties_file.read_properties(path, NOTHING)
    return _File(resolve(given)[1]).config(tuple(targets))


class _File:
    """The contents of the file, key by key."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {key: value.strip() for key, value in given.items()}
        self._clusters = self._aliases()
        self._plain: dict[str, str] = {}
        self._of_cluster: dict[str, dict[str, str]] = {alias: {} for alias in self._clusters}
        self._of_flow: dict[tuple[str, str], dict[str, str]] = {}
        self._accepted: list[str] = []
        for key, value in self._given.items():
            self._sort(key, value)

    def _aliases(self) -> list[str]:
        aliases = split_list(self._given.get("clusters", ""))
        if len(aliases) < 2:
            raise ConfigError(
                "clusters names fewer than two clusters, so there is nothing to copy from one to the other. Nothing was"
                " copied. Name them all: clusters = A, B",
                tag="WRONG_VALUE",
            )
        wrong = [alias for alias in aliases if not _ALIAS.fullmatch(alias)]
        if wrong or len(set(aliases)) < len(aliases):
            what = f"{wrong[0]!r:.100} is no alias" if wrong else "an alias is there twice"
            raise ConfigError(
                f"clusters: {what}. Nothing was copied. Use letters, digits, dots, dashes and underscores, each alias"
                " once.",
                tag="WRONG_VALUE",
            )
        return aliases

    # ---- each key in its place

    def _sort(self, key: str, value: str) -> None:
        if key == "clusters":
            return
        flow = next(((a, b) for a, b in self._pairs() if key.startswith(f"{a}->{b}.")), None)
        if flow is not None:
            name = key.removeprefix(f"{flow[0]}->{flow[1]}.")
            self._of_flow.setdefault(flow, {})[name] = value
            self._judge(key, name, value, FLOW, client=None)
        elif "->" in key:
            raise self._unknown_cluster(key)
        elif (alias := self._alias_of(key)) is not None:
            name = key.removeprefix(f"{alias}.")
            self._of_cluster[alias][name] = value
            self._judge(key, name, value, CLUSTER, client=is_client_property)
        else:
            self._plain[key] = value
            self._judge(key, key, value, FLOW, client=is_shared)

    def _pairs(self) -> Iterator[tuple[str, str]]:
        return permutations(self._clusters, 2)

    def _alias_of(self, key: str) -> str | None:
        return max((alias for alias in self._clusters if key.startswith(f"{alias}.")), key=len, default=None)

    def _judge(
        self, key: str, name: str, value: str, used: Iterable[str], *, client: Callable[[str], bool] | None
    ) -> None:
        """Raise :class:`ConfigError` unless a key is used, may be passed over, or is a client's, which looks at it
        itself.

        ``client`` says which names are a client's in this place: none below a flow.
        """
        for pattern, reason, harmless in REFUSED:
            if re.fullmatch(pattern, name):
                if value not in harmless:
                    raise ConfigError(
                        f"{key}={value:.100} {reason} Nothing was copied. Take it out.", tag="WRONG_VALUE"
                    )
                self._accepted.append(key)
                return
        if is_accepted(name):
            self._accepted.append(key)
        elif not (name in used or name in NOT_DONE or name.startswith(ROLES) or (client and client(name))):
            if name.endswith(".bootstrap.servers"):
                raise self._unknown_cluster(key)
            hint = nearest(name, [*used, *NOT_DONE, *ACCEPTED.exact, *CLIENT])
            raise unknown(key, (), NOTHING, what="key", hint=hint)

    def _unknown_cluster(self, key: str) -> ConfigError:
        return ConfigError(
            f"{key} names a cluster that clusters does not: it has {', '.join(self._clusters)}. Nothing was copied."
            " Correct the alias, or add it to clusters.",
            tag="UNKNOWN_OPTION",
        )

    # ---- flows

    def config(self, targets: tuple[str, ...]) -> MirrorConfig:
        """Return the enabled flows, checked as a whole."""
        for alias in targets:
            if alias not in self._clusters:
                raise self._unknown_cluster(f"--clusters {alias}")
        enabled = [flow for flow in self._pairs() if self._value(*flow, "enabled")]
        chosen = [flow for flow in enabled if not targets or flow[1] in targets]
        if not chosen:
            raise ConfigError(
                "no flow is enabled"
                + (f" into {', '.join(targets)}" if targets else "")
                + ", so there is nothing to do."
                f" Nothing was copied. Enable one: {self._clusters[0]}->{self._clusters[1]}.enabled = true",
                tag="NO_FLOW",
            )
        flows = tuple(self._flow(source, target, enabled) for source, target in chosen)
        asked = {name: [self._value(*flow, name) for flow in chosen] for name in NOT_DONE}
        not_done = tuple(what for name, what in NOT_DONE.items() if any(asked[name]))
        return MirrorConfig(flows, tuple(sorted([*self._accepted, *self._unread(enabled)])), not_done)

    def _unread(self, enabled: Iterable[tuple[str, str]]) -> Iterator[str]:
        """Yield the clients' keys of clusters that no client of the enabled flows reads."""
        sources, targets = ({flow[side] for flow in enabled} for side in (0, 1))
        for alias, row in self._of_cluster.items():
            roles = {"consumer.": sources, "producer.": targets, "admin.": sources | targets}
            unread = (*OF_CLUSTER_UNREAD, *(role for role, read in roles.items() if alias not in read))
            unread += tuple(f"{role}{OVERRIDE}" for role in roles)
            for name in row:
                if name.startswith(unread) and not is_accepted(name):
                    yield f"{alias}.{name}"

    def _rows(self, source: str, target: str) -> list[Mapping[str, str]]:
        """Return where the keys of a flow are looked up, the nearest first."""
        return [self._of_flow.get((source, target), {}), self._plain]

    def _get(self, source: str, target: str, name: str) -> tuple[str, str] | None:
        """Return the key that applies to a flow, with its value."""
        keys = (f"{source}->{target}.{name}", name)
        found = zip(keys, self._rows(source, target), strict=True)
        return next(((key, row[name]) for key, row in found if name in row), None)

    def _value(self, source: str, target: str, name: str) -> Any:
        """Return the value that applies to a flow, or the default."""
        setting = FLOW.get(name, _NOT_DONE_HERE)
        found = self._get(source, target, name)
        return setting.default if found is None else read_value(*found, setting, NOTHING)

    def _flow(self, source: str, target: str, enabled: Iterable[tuple[str, str]]) -> FlowConfig:
        def value(name: str) -> Any:
            return self._value(source, target, name)

        def interval(of: str) -> int:
            return value(f"{of}.interval.seconds") if value(f"{of}.enabled") else 0

        policy = self._policy(source, target)
        back = (target, source) in enabled and policy.returns_names(self._policy(target, source))
        reads = self._client(source, (source, target), "source", "consumer")
        start = reads.pop("auto.offset.reset", START.default)
        return FlowConfig(
            policy,
            self._filter(source, target, "topics"),
            reads,
            self._client(target, (source, target), "target", "producer"),
            start,
            value("replication.factor"),
            interval("refresh.topics"),
            self._exactly_once(source, target),
            self._filter(source, target, "groups"),
            interval("sync.topic.configs"),
            tuple(patterns(*self._excluded(source, target, "config.properties"))),
            interval("emit.checkpoints"),
            value("checkpoints.topic.replication.factor"),
            interval("sync.group.offsets"),
            value("on.data.loss") == "skip",
            self._filter(target, source, "topics") if back else None,
        )

    def _policy(self, source: str, target: str) -> ReplicationPolicy:
        key, name = self._found(source, target, _POLICY)
        policy = POLICIES.get(name.removeprefix(_JAVA))
        if policy is None:
            raise ConfigError(
                f"{key}={name:.200} is a class of Java's, which does not run here, so topics would be named another"
                f" way. Nothing was copied. Use one of {', '.join(_JAVA + each for each in POLICIES)}.",
                tag="WRONG_VALUE",
            )
        key, separator = self._found(source, target, "replication.policy.separator")
        if not re.fullmatch(r"[A-Za-z0-9._-]+", separator):
            raise ConfigError(
                f"{key}={separator!r:.100} cannot stand in the name of a topic. Nothing was copied. Use letters,"
                " digits, dots, dashes and underscores.",
                tag="WRONG_VALUE",
            )
        internal = self._value(source, target, "replication.policy.internal.topic.separator.enabled")
        return policy(source, target, separator, internal, tuple(self._clusters))

    def _found(self, source: str, target: str, name: str) -> tuple[str, str]:
        """Return the key that applies to a flow, with its value or the default."""
        return self._get(source, target, name) or (name, FLOW[name].default)

    def _filter(self, source: str, target: str, name: str) -> TopicFilter:
        return TopicFilter.parse(self._found(source, target, name), self._excluded(source, target, name))

    def _excluded(self, source: str, target: str, name: str) -> tuple[str, str]:
        """Return the key with the patterns that are left out. It has an older name too."""
        older = None if self._get(source, target, f"{name}.exclude") else self._get(source, target, f"{name}.blacklist")
        return older or self._found(source, target, f"{name}.exclude")

    def _exactly_once(self, source: str, target: str) -> bool:
        """Exactly once, also where the file is silent; at least once where it says so.

        What contradicts itself is refused.
        """
        said: dict[str, bool] = {}
        ((name, setting),) = CLUSTER.items()
        support = self._of_cluster[target].get(name)
        if support is not None:
            said[f"{target}.{name}={support}"] = read_value(f"{target}.{name}", support, setting, NOTHING) != "disabled"
        found = self._get(source, target, "transaction.producer")
        if found is not None:
            said["=".join(found)] = self._value(source, target, "transaction.producer")
        if len(set(said.values())) > 1:
            raise ConfigError(
                f"{' and '.join(said)} contradict each other. Nothing was copied. Set both to exactly once, or both"
                " to at least once.",
                tag="WRONG_VALUE",
            )
        return next(iter(said.values()), True)

    # ---- clients

    def _client(self, alias: str, flow: tuple[str, str], side: str, role: str) -> dict[str, str]:
        """Return the properties of the client of one cluster. Raise :class:`ConfigError` if they are wrong."""
        cluster, own, plain = self._of_cluster[alias], self._of_flow.get(flow, {}), self._plain
        of_flow, of_cluster = f"{flow[0]}->{flow[1]}.", f"{alias}."
        merged = {name: (value, name) for name, value in plain.items() if is_shared(name)}
        merged |= {name: (value, of_cluster + name) for name, value in cluster.items() if is_client_property(name)}
        for each in ("admin", role):
            places = [
                ("", f"{each}.", plain),
                ("", f"{side}.{each}.", plain),
                (of_cluster, f"{each}.", cluster),
                (of_flow, f"{each}.", own),
                (of_flow, f"{side}.{each}.", own),
            ]
            if side == "target":
                places += [("", f"{each}.{OVERRIDE}", plain), (of_flow, f"{each}.{OVERRIDE}", own)]
            for start, prefix, row in places:
                for name, value in _below(prefix, row).items():
                    if not name.startswith(OVERRIDE) and not is_accepted(f"{each}.{name}"):
                        merged[name] = value, f"{start}{prefix}{name}"
        values, written = ({name: row[at] for name, row in merged.items()} for at in (0, 1))
        self._check_committed(alias, values)
        if not values.get("bootstrap.servers"):
            raise missing(f"{alias}.bootstrap.servers", NOTHING, "Give it as host:port[,host:port].")
        reset = {name: values.pop(name) for name in ("auto.offset.reset",) if name in values}
        if side == "source":
            reset = {name: read_value(written[name], value, START, NOTHING) for name, value in reset.items()}
        try:
            ClientConfig.parse(values)
        except SemelError as error:
            keys = [
                key
                for name, key in written.items()
                if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w])", error.message)
            ]
            where = f" In the file: {', '.join(sorted(keys))}." if keys else ""
            raise type(error)(f"cluster {alias}: {error.message}{where}", tag=error.tag) from None
        return {**values, **reset}

    def _check_committed(self, alias: str, merged: Mapping[str, str]) -> None:
        if merged.get("isolation.level", "read_committed").lower() == "read_uncommitted":
            raise ConfigError(
                f"isolation.level=read_uncommitted of {alias} contradicts exactly once: rows that were aborted there"
                " would arrive here as committed ones. Nothing was copied. Take it out.",
                tag="WRONG_VALUE",
            )


def _below(prefix: str, row: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}
