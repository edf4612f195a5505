"""The properties of one node, and the mark of its directory as formatted.

Every node is broker and controller; the controllers are a fixed quorum. The defaults suit tests: few partitions in the
internal topics, no wait when a group starts, no automatic topics, a lost node noticed in seconds. ``settings`` of the
caller win over all of them.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from pathlib import Path

__all__ = [
    "LOG4J",
    "META",
    "TWO_PHASE_COMMIT",
    "meta_properties",
    "new_cluster_id",
    "parse_properties",
    "properties_text",
    "server_properties",
]

#: Broker settings that allow prepared transactions (KIP-939).
TWO_PHASE_COMMIT = {"transaction.two.phase.commit.enable": "true", "unstable.api.versions.enable": "true"}
#: The file that names the cluster and node of a directory.
META = "meta.properties"

LOG4J = """\
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c)%n
logger.config.name=org.apache.kafka.common.config.AbstractConfig
logger.config.level=WARN
"""


def server_properties(
    *, node_id: int, ports: Mapping[str, int], controllers: Mapping[int, int], data: Path, settings: Mapping[str, str]
) -> dict[str, str]:
    """Return Kafka's ``server.properties`` of the node ``node_id``.

    ``ports`` has a port for each security protocol, ``controllers`` every node's id and its controller's port.
    """
    listeners = [f"{protocol}://127.0.0.1:{port}" for protocol, port in ports.items()]
    replicas = min(3, len(controllers))
    in_sync = 2 if replicas == 3 else 1
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(
            f"{node}@127.0.0.1:{number}" for node, number in sorted(controllers.items())
        ),
        "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{controllers[node_id]}"]),
        "advertised.listeners": ",".join(listeners),
        "listener.security.protocol.map": ",".join(
            [*(f"{protocol}:{protocol}" for protocol in ports), "CONTROLLER:PLAINTEXT"]
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "group.initial.rebalance.delay.ms": "0",
        # Kafka's default week counts by the rows' own time: rows that a test has dated 1970 could be deleted at any
        # moment
        "log.retention.ms": "-1",
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    }
    if len(controllers) > 1:
        # a single node keeps Kafka's 9 s: it must not be fenced on a machine under load, and there is no other leader
        # to wait for
        properties.update({"broker.heartbeat.interval.ms": "500", "broker.session.timeout.ms": "4000"})
    properties.update(settings)
    return properties


def properties_text(properties: Mapping[str, str]) -> str:
    """Return the text of a Java properties file."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in properties.items())


def parse_properties(text: str) -> dict[str, str]:
    """Parse a properties file that Kafka wrote: one ``name=value`` a line."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def meta_properties(node_id: int, cluster_id: str) -> str:
    """Return the text that Kafka's storage tool writes into a formatted directory, next to the bootstrap records."""
    return properties_text(
        {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id), "directory.id": new_cluster_id()}
    )


def new_cluster_id() -> str:
    """Return a random id in Kafka's spelling: 16 bytes in URL-safe base64, not beginning with a dash like an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
