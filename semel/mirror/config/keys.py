"""The keys of MirrorMaker 2's file, by what becomes of them here."""

from __future__ import annotations

import re
from typing import Final

from semel.config import MEANINGLESS, is_property
from semel.security import SECURITY, only_in_java

__all__ = [
    "ACCEPTED",
    "CLIENT",
    "FLOW",
    "NOT_DONE",
    "OF_CLUSTER_UNREAD",
    "OVERRIDE",
    "REFUSED",
    "ROLES",
    "is_accepted",
    "is_client_key",
    "is_shared",
    "nothing",
]

#: What a client's own keys look like, for hints.
CLIENT: Final = ("bootstrap.servers", "security.protocol", "source.consumer.auto.offset.reset")

#: Read for each flow, plain or of the flow.
FLOW: Final = tuple(
    """enabled topics topics.exclude topics.blacklist replication.policy.class replication.policy.separator
    replication.policy.internal.topic.separator.enabled replication.factor refresh.topics.enabled
    refresh.topics.interval.seconds transaction.producer
    sync.topic.configs.enabled sync.topic.configs.interval.seconds config.properties.exclude
    config.properties.blacklist groups groups.exclude groups.blacklist emit.checkpoints.enabled
    emit.checkpoints.interval.seconds checkpoints.topic.replication.factor sync.group.offsets.enabled
    sync.group.offsets.interval.seconds on.data.loss""".split()
)
#: What MirrorMaker 2 does unless the file says false, and this version does not: it is said at start.
NOT_DONE: Final = {
    "sync.topic.acls.enabled": "access rights are not copied",
    "emit.offset-syncs.enabled": "MirrorMaker 2's own offset syncs are not written",
    "emit.heartbeats.enabled": "heartbeats are not written",
    "heartbeats.replication.enabled": "heartbeats are not copied",
}
ROLES: Final = tuple(
    f"{side}{role}." for side in ("", "source.", "target.") for role in ("consumer", "producer", "admin")
)
#: Of these, what no client reads below a cluster's alias: a side belongs to a flow.
OF_CLUSTER_UNREAD: Final = tuple(name for name in ROLES if name.startswith(("source.", "target.")))

#: Of Connect: what a connector sets of the clients of the worker that it runs in, which are the target's.
OVERRIDE: Final = "override."

#: Keys that cannot change which records arrive where: Connect's own topics and threads, and what belongs to NOT_DONE.
ACCEPTED: Final = frozenset(
    """tasks.max name listeners admin.listeners advertised.listener group.id plugin.path plugin.discovery worker.id
    dedicated.mode.enable.internal.rest tasks.max.enforce topic.creation.enable connector.client.config.override.policy
    consumer.poll.timeout.ms admin.timeout.ms offset.lag.max offset-syncs.topic.location add.source.alias.to.metrics
    offset-syncs.topic.replication.factor heartbeats.topic.replication.factor
    refresh.groups.enabled refresh.groups.interval.seconds
    sync.topic.acls.interval.seconds emit.heartbeats.interval.seconds use.incremental.alter.configs
    scheduled.rebalance.max.delay.ms session.timeout.ms rebalance.timeout.ms heartbeat.interval.ms
    worker.sync.timeout.ms worker.unsync.backoff.ms task.shutdown.graceful.timeout.ms connect.protocol""".split()
)
_ACCEPTED_LIKE = re.compile(
    r"(?:config|offset|status)\.storage\..+|offset\.flush\..+|rest\..+|response\.http\..+|access\.control\..+"
    r"|(?:key|value|header)\.converter\.schemas\.enable"
    r"|inter\.worker\..+|metrics?\..+|auto\.include\..+|errors\.(?:log|retry)\..+"
)
#: Of clients: what names a group or a codec, since batches come with the codec that they have; and those that a flow
#: does without.
_OF_CLIENTS = re.compile(
    r"(?:(?:source|target)\.)?(?:consumer|producer|admin)\.(?:override\.)?"
    r"(?:group\.id|group\.instance\.id|compression\.[a-z0-9.]+)"
    r"|(?:source\.producer|target\.consumer|(?:source\.)?consumer\.override|source\.admin\.override)\..+"
)

_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_FILTERS = ("DefaultTopicFilter", "DefaultGroupFilter", "DefaultConfigPropertyFilter")
_MIRROR = "org.apache.kafka.connect.mirror."
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
)


def is_accepted(name: str) -> bool:
    """Return whether a key may be ignored, and is listed."""
    return name in ACCEPTED or bool(_ACCEPTED_LIKE.fullmatch(name) or _OF_CLIENTS.fullmatch(name))


def is_client_key(name: str) -> bool:
    """Return whether a name is a property of Kafka's clients. Properties of Java's clients count too: semel's client
    refuses them.
    """
    return is_property(name) or name in SECURITY or name in MEANINGLESS or only_in_java(name) is not None


def is_shared(name: str) -> bool:
    """Return whether a key without an alias applies to the clients of all clusters."""
    return name == "bootstrap.servers" or name in SECURITY


def nothing(name: str) -> bool:
    """Return False: a flow has no client key without its role."""
    return False
