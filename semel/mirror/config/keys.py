"""The keys of MirrorMaker 2's file, by what becomes of them here."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from semel.config import is_client_property
from semel.mirror.topic_filter import DEFAULT_EXCLUDED, DEFAULT_EXCLUDED_CONFIGS, DEFAULT_EXCLUDED_GROUPS
from semel.security import SECURITY, only_in_java
from semel.settings import INT_MAX, Setting
from semel.settings.unused import Names

__all__ = [
    "ACCEPTED",
    "ALIASES",
    "CLIENT",
    "CLUSTER",
    "FLOW",
    "NOTHING",
    "OF_CLUSTER_UNREAD",
    "OF_SIDES",
    "OVERRIDE",
    "REFUSED",
    "ROLES",
    "START",
    "is_accepted",
    "is_ignored_client_key",
    "is_shared",
]

#: What a client's own keys look like, for hints.
CLIENT: Final = ("bootstrap.servers", "security.protocol", "source.consumer.auto.offset.reset")

NOTHING: Final = "Nothing was copied."

_ON, _OFF = Setting(bool, True), Setting(bool, False)
_REPLICATION = Setting(int, 2, 1, at_most=INT_MAX, also=-1)


def _seconds(default: int) -> Setting:
    return Setting(int, default, 1, at_most=INT_MAX)


#: Read for each flow, plain or of the flow.
FLOW: Final = {
    "enabled": _OFF,
    "topics": Setting(str, ".*"),
    "topics.exclude": Setting(str, DEFAULT_EXCLUDED),
    "topics.blacklist": Setting(str, None),
    "replication.policy.class": Setting(str, "DefaultReplicationPolicy"),
    "replication.policy.separator": Setting(str, "."),
    "replication.policy.internal.topic.separator.enabled": _ON,
    "replication.factor": _REPLICATION,
    "refresh.topics.enabled": _ON,
    "refresh.topics.interval.seconds": _seconds(600),
    "transaction.producer": Setting(bool, None),
    "sync.topic.configs.enabled": _ON,
    "sync.topic.configs.interval.seconds": _seconds(600),
    "config.properties.exclude": Setting(str, DEFAULT_EXCLUDED_CONFIGS),
    "config.properties.blacklist": Setting(str, None),
    "groups": Setting(str, ".*"),
    "groups.exclude": Setting(str, DEFAULT_EXCLUDED_GROUPS),
    "groups.blacklist": Setting(str, None),
    "emit.checkpoints.enabled": _ON,
    "emit.checkpoints.interval.seconds": _seconds(60),
    "checkpoints.topic.replication.factor": replace(_REPLICATION, default=None),
    "emit.heartbeats.enabled": _ON,
    "emit.heartbeats.interval.seconds": _seconds(1),
    "heartbeats.topic.replication.factor": replace(_REPLICATION, default=None),
    "heartbeats.replication.enabled": _ON,
    "emit.offset-syncs.enabled": _ON,
    "offset.lag.max": Setting(int, 100, 0),
    "offset-syncs.topic.location": Setting(str, "source", one_of=("source", "target")),
    "offset-syncs.topic.replication.factor": replace(_REPLICATION, default=None),
    "sync.topic.acls.enabled": _ON,
    "sync.topic.acls.interval.seconds": _seconds(600),
    "source.cluster.alias": Setting(str, None),
    "target.cluster.alias": Setting(str, None),
    "exactly.once.support": Setting(str, None, one_of=("requested", "required")),
    "sync.group.offsets.enabled": _OFF,
    "sync.group.offsets.interval.seconds": _seconds(60),
    "on.data.loss": Setting(str, "stop", one_of=("stop", "skip")),
    "driver.copy.max.offsets": Setting(int, 10_000, 0, at_most=INT_MAX),
}
#: Read for each cluster, beside its clients' own. A plain one applies to every target.
CLUSTER: Final = {"exactly.once.source.support": Setting(str, None, one_of=("enabled", "preparing", "disabled"))}
#: The names of the two clusters, as a connector is configured with them: no alias of a cluster precedes them, also
#: where a cluster is called source or target.
ALIASES: Final = ("source.cluster.alias", "target.cluster.alias")
#: The clients of a flow's clusters, as a connector is configured with them.
OF_SIDES: Final = ("source.cluster.", "target.cluster.")
#: Where a flow that has copied nothing begins: a client's property, and read here.
START: Final = Setting(str, "earliest", one_of=("earliest", "latest"))
ROLES: Final = tuple(
    f"{side}{role}." for side in ("", "source.", "target.") for role in ("consumer", "producer", "admin")
)
#: Of these, what no client reads below a cluster's alias: a side belongs to a flow.
OF_CLUSTER_UNREAD: Final = tuple(name for name in ROLES if name.startswith(("source.", "target.")))

#: Of Connect: what a connector sets of the clients of the worker that it runs in, which are the target's.
OVERRIDE: Final = "override."

#: Keys that cannot change which records arrive where: Connect's own topics and threads.
ACCEPTED: Final = Names(
    """tasks.max name listeners admin.listeners group.id plugin.path plugin.discovery
    dedicated.mode.enable.internal.rest tasks.max.enforce topic.creation.enable connector.client.config.override.policy
    consumer.poll.timeout.ms admin.timeout.ms add.source.alias.to.metrics
    offset-syncs.client.enabled offsets.storage.topic
    refresh.groups.enabled refresh.groups.interval.seconds use.incremental.alter.configs
    scheduled.rebalance.max.delay.ms session.timeout.ms rebalance.timeout.ms heartbeat.interval.ms
    connect.protocol config.action.reload topic.tracking.enable topic.tracking.allow.reset transaction.boundary
    transaction.boundary.interval.ms confluent. worker. task. topic.creation. listeners. admin.listeners. advertised.
    config.storage. offset.storage. status.storage. offset.flush. rest. response.http. access.control. inter.worker.
    metric. metrics. auto.include. errors.log. errors.retry. errors.deadletterqueue. key.converter.schemas.enable
    value.converter.schemas.enable header.converter.schemas.enable semel.rest.credentials.file"""
)
#: Of clients: what names a group, its assignment or a codec, since batches come with the codec that they have and go to
#: the partition that they are from; and those that a flow does without.
_OF_CLIENTS = re.compile(
    r"(?:(?:source|target)\.)?(?:consumer|producer|admin)\.(?:override\.)?"
    r"(?:group\.[a-z.]+|partition\.assignment\.strategy|partitioner\.[a-z.]+|compression\.[a-z0-9.]+"
    r"|allow\.auto\.create\.topics|bootstrap\.controllers|metadata\.recovery\.[a-z.]+|config\.providers"
    r"|share\.[a-z.]+|transactional\.id|transaction\.two\.phase\.commit\.enable|internal\.[a-z.]+|confluent\.[a-z.]+)"
    r"|(?:source\.producer|target\.consumer|(?:source\.)?consumer\.override|source\.admin\.override)\..+"
)
#: Clients' own that MirrorMaker 2 reads nowhere without a role, and that would say which records arrive.
_CHOOSES_RECORDS: Final = ("auto.offset.reset", "isolation.level")

_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_FILTERS = ("DefaultTopicFilter", "DefaultGroupFilter", "DefaultConfigPropertyFilter")
_MIRROR = "org.apache.kafka.connect.mirror."
_MONITORING = "io.confluent.monitoring.clients.interceptor."
#: Patterns of keys that would change which records arrive, the reason, and the values that would not.
REFUSED: Final = (
    (r"(?:transforms|predicates)(?:\..+)?", "would change records by classes of Java's, which do not run here.", ("",)),
    (r"(?:key|value|header)\.converter", "would change records: they are copied byte by byte.", ("", _BYTES)),
    (
        r"(?:topic|group|config\.property)\.filter\.class",
        "is a class of Java's, which does not run here: it could choose other topics.",
        (*_FILTERS, *(_MIRROR + name for name in _FILTERS)),
    ),
    (
        r"forwarding\.admin\.class",
        "is a class of Java's, which does not run here: it could make topics another way.",
        ("", "org.apache.kafka.clients.admin.ForwardingAdmin"),
    ),
    (r"errors\.tolerance", "would pass over records that cannot be written.", ("none",)),
    (
        r"use\.defaults\.from",
        "would set the source's defaults on the target: settings that are not set there are not set here.",
        ("target",),
    ),
    (r"connector\.type", "is none of source and sink.", ("source", "sink")),
    (
        r"connector\.class",
        "is none of MirrorMaker 2's connectors.",
        tuple(f"{_MIRROR}Mirror{kind}Connector" for kind in ("Source", "Checkpoint", "Heartbeat")),
    ),
    (
        r"(?:.+\.)?interceptor\.classes",
        "is a class of Java's, which does not run here: it could change records.",
        ("", *(_MONITORING + name for name in ("MonitoringConsumerInterceptor", "MonitoringProducerInterceptor"))),
    ),
)


def is_ignored_client_key(name: str) -> bool:
    """Return whether a client's own key without a role is one that MirrorMaker 2 does not read either."""
    return is_client_property(name) and name not in (*SECURITY, *_CHOOSES_RECORDS) and only_in_java(name) is None


def is_accepted(name: str) -> bool:
    """Return whether a key may be ignored, and is listed."""
    return name in ACCEPTED or bool(_OF_CLIENTS.fullmatch(name))


def is_shared(name: str) -> bool:
    """Return whether a key without an alias applies to the clients of all clusters."""
    return name == "bootstrap.servers" or name in SECURITY
