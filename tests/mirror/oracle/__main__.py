"""Ask MirrorMaker 2's own classes about the cases, and keep the answers."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

from tests.connect.support.kafka_connect import jars
from tests.mirror.support.mirror_maker import java

ANSWERS = Path(__file__).parent / "answers.json"
_MIRROR = "org.apache.kafka.connect.mirror."
_HEARTBEATS = [("A", "B", 0), ("eu-west", "us.east", 1_764_000_000_123), ("d\u00e4", "b", 2**63 - 1)]
_SYNCS = [("orders", 0, 0, 0), ("d\u00e4-1", 2**31 - 1, 41, 2**63 - 1)]
LAGS = (0, 3, 10, 100)
#: Source and target offsets: rounds with a marker on the target after each, gaps in the source, a long run.
RECORDS = [
    *((offset, offset + offset // 7) for offset in range(30)),
    *((offset, offset + 5) for offset in range(32, 40)),
    *((offset, offset + 6) for offset in range(41, 300)),
]
END = 310
#: Records of a round.
ROUND = 64
_OPERATIONS = ("ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
#: Names on the source; the clusters are A and B, so B.heartbeats has come from the target.
_NAMES = ("heartbeats", "A.heartbeats", "B.heartbeats", "C.heartbeats", "X.Y.heartbeats", "heartbeats.A", "orders")


def _call(instance: Any, name: str, jvm: Any, *arguments: Any) -> Any:
    """Call a method that its package alone may call."""
    method = next(one for one in instance.getClass().getDeclaredMethods() if one.getName() == name)
    method.setAccessible(True)
    given = _array(jvm, "Object", arguments)
    return method.invoke(instance, given)


def _array(jvm: Any, kind: str, values: Any) -> Any:
    made = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName(f"java.lang.{kind}"), len(values))
    for number, value in enumerate(values):
        jvm.java.lang.reflect.Array.set(made, number, value)
    return made


def _heartbeats(jvm: Any) -> list[Any]:
    rows = []
    for source, target, timestamp in _HEARTBEATS:
        made = jvm.org.apache.kafka.connect.mirror.Heartbeat(source, target, timestamp)
        key, value = (bytes(_call(made, name, jvm)).hex() for name in ("recordKey", "recordValue"))
        rows.append([source, target, timestamp, key, value])
    return rows


def _connector(jvm: Any) -> Any:
    """A connector from A to B, which copies every topic."""
    mirror = jvm.org.apache.kafka.connect.mirror
    policy = mirror.DefaultReplicationPolicy()
    policy.configure({})
    topics = mirror.DefaultTopicFilter()
    topics.configure({"topics": ".*"})
    parts = [mirror.SourceAndTarget("A", "B"), policy, topics, None]
    makers = jvm.java.lang.Class.forName(f"{_MIRROR}MirrorSourceConnector").getDeclaredConstructors()
    maker = next(one for one in makers if one.getParameterCount() == len(parts))
    maker.setAccessible(True)
    return maker.newInstance(_array(jvm, "Object", parts))


def _rights(jvm: Any) -> list[Any]:
    """The operation that each right on a topic becomes on the target, or None."""
    acl, resource = jvm.org.apache.kafka.common.acl, jvm.org.apache.kafka.common.resource
    connector, rows = _connector(jvm), []
    pattern = resource.ResourcePattern(
        resource.ResourceType.valueOf("TOPIC"), "orders", resource.PatternType.valueOf("LITERAL")
    )
    for operation, permission in product(_OPERATIONS, ("ALLOW", "DENY")):
        kinds = acl.AclOperation.valueOf(operation), acl.AclPermissionType.valueOf(permission)
        binding = acl.AclBinding(pattern, acl.AccessControlEntry("User:ann", "*", *kinds))
        becomes = None
        if _call(connector, "shouldReplicateAcl", jvm, binding):
            target = _call(connector, "targetAclBinding", jvm, binding)
            becomes = [target.pattern().name(), str(target.entry().operation()), str(target.entry().permissionType())]
        rows.append([operation, permission, becomes])
    return rows


def _names(jvm: Any) -> dict[str, Any]:
    """By policy: of each name, whether it is that of heartbeats, whether it is copied, and its name on the target."""
    found: dict[str, Any] = {}
    for kind in ("Default", "Identity"):
        policy = getattr(jvm.org.apache.kafka.connect.mirror, f"{kind}ReplicationPolicy")()
        policy.configure({})
        found[kind] = [
            [name, policy.isHeartbeatsTopic(name), policy.topicSource(name), policy.formatRemoteTopic("A", name)]
            for name in _NAMES
        ]
    return found


def _made(jvm: Any, name: str, *arguments: Any) -> Any:
    """An instance of a class of MirrorMaker 2 that its package alone may make."""
    makers = jvm.java.lang.Class.forName(f"{_MIRROR}{name}").getDeclaredConstructors()
    maker = next(one for one in makers if one.getParameterCount() == len(arguments))
    maker.setAccessible(True)
    return maker.newInstance(_array(jvm, "Object", arguments))


def _offset_syncs(jvm: Any) -> list[Any]:
    """Key and value of offset syncs."""
    rows = []
    for topic, partition, upstream, downstream in _SYNCS:
        at = jvm.org.apache.kafka.common.TopicPartition(topic, partition)
        made = _made(jvm, "OffsetSync", at, upstream, downstream)
        key, value = (bytes(_call(made, name, jvm).array()).hex() for name in ("serializeKey", "serializeValue"))
        rows.append([topic, partition, upstream, downstream, key, value])
    return rows


def _due_syncs(jvm: Any) -> list[Any]:
    """For each lag: which of the records of RECORDS have a sync, and the translation of each offset by a store of the
    last sync of each round.
    """
    rows = []
    at = jvm.org.apache.kafka.common.TopicPartition("orders", 0)
    for lag in LAGS:
        state = _made(jvm, "OffsetSyncWriter$PartitionState", lag)
        syncs = []
        for record in RECORDS:
            if _call(state, "update", jvm, *record):
                syncs.append(record)
                _call(state, "reset", jvm)
        store = _made(jvm, "OffsetSyncStore")
        is_read = store.getClass().getDeclaredField("readToEnd")  # as after its start, which needs a cluster
        is_read.setAccessible(True)
        is_read.set(store, True)
        for first in range(0, len(RECORDS), ROUND):
            due = [record for record in RECORDS[first : first + ROUND] if record in syncs]
            if due:
                sync = _made(jvm, "OffsetSync", at, *due[-1])
                key, value = (_call(sync, name, jvm).array() for name in ("serializeKey", "serializeValue"))
                record = jvm.org.apache.kafka.clients.consumer.ConsumerRecord("syncs", 0, first, key, value)
                _call(store, "handleRecord", jvm, record)
        found = [_call(store, "translateDownstream", jvm, "g", at, one).getAsLong() for one in range(END)]
        rows.append([lag, " ".join(f"{source}:{target}" for source, target in syncs), " ".join(map(str, found))])
    return rows


def main() -> None:
    """Write the answers."""
    with java(jars()) as jvm:
        answers = {"heartbeats": _heartbeats(jvm), "rights": _rights(jvm), "names": _names(jvm)}
        answers |= {"offset_syncs": _offset_syncs(jvm), "due_syncs": _due_syncs(jvm)}
    ANSWERS.write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main()
