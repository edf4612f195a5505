"""Three nodes on which a partition can be without a leader while a transaction ends (KAFKA-20734), and owners that are
left behind there.

Internal topics have one replica each, so that freezing one node, the victim, takes the leaders of some partitions away
and leaves the coordinators of others where they are. What lies where is chosen by name.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType

from semel.config import ClientConfig
from semel.sandbox import Node, Sandbox, Secured, jars
from semel.transaction.group_offsets import offsets_partition
from semel.transaction.progress.settings import PARTITIONS
from semel.transaction.progress.topic import DEFAULT_TOPIC, ProgressTopic
from semel.wire.api.offsets import live_members
from semel.wire.api.transactions import fence
from semel.wire.client import Client
from semel.wire.metadata import Metadata, metadata_request
from semel.wire.target import TransactionCoordinator
from tests.support.secured import Right, SecuredKafka
from tests.support.waiting import wait_for

_ONE_REPLICA = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.replication.factor": "1",
    # of no common divisor with those of the transaction log: else the partition of NAME-group follows from that of NAME
    "offsets.topic.num.partitions": "7",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "5000",
}
#: All but the right to write markers.
APP: list[Right] = [
    (ResourceType.TOPIC, "*", AclOperation.ALL),
    (ResourceType.GROUP, "*", AclOperation.ALL),
    (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.ALL),
    (ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
    (ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS),
]
MAY_HEAL: Right = (ResourceType.BROKER, "kafka-cluster", AclOperation.ALTER)
_numbers = itertools.count(1)
#: So many names are tried before none is said to fit.
MANY = 10_000


@dataclass(frozen=True)
class Names:
    """The traces of one transaction: topic, transactional id and group, each on the victim or beside it."""

    topic: str
    id: str
    group: str


@dataclass
class Frail:
    """The cluster, its victim, and a client that everything is allowed to."""

    kafka: Sandbox
    secured: SecuredKafka
    client: Client
    victim: Node

    def properties(self, *, may_heal: bool = True, **more: object) -> Mapping[str, object]:
        """Return the properties of a client, without the right to write markers unless it may heal."""
        login = {} if may_heal else self.secured.login("PLAIN", "app", "of app", "SASL_PLAINTEXT")
        return {
            "bootstrap.servers": self.kafka.bootstrap_servers,
            **login,
            "request.timeout.ms": 2_000,
            "socket.connection.setup.timeout.ms": 1_000,
            "delivery.timeout.ms": 40_000,
            "metadata.max.age.ms": 1_000,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def login(self, directory: Path) -> list[str]:
        """Arguments for a command that may not heal, and comes by the secured listener."""
        properties = self.properties(may_heal=False)
        file = directory / "login.properties"
        file.write_text(
            "".join(
                f"{name}={properties[name]}\n" for name in ("security.protocol", "sasl.mechanism", "sasl.jaas.config")
            )
        )
        return ["--command-config", str(file), "--bootstrap-server", str(properties["bootstrap.servers"])]

    def progress_topic(self, name: str) -> str:
        """Return a topic for progress that never lies on the victim."""
        replicas = [[next(node.id for node in self.kafka.nodes if node is not self.victim)]] * PARTITIONS
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        topic = NewTopic(name, PARTITIONS, replica_assignment=replicas, config={"cleanup.policy": "compact"})
        admin.create_topics([topic])[name].result(60)
        wait_for(lambda: self.led(name, range(PARTITIONS)), f"the leaders of {name}")
        return name

    def names(self, *, data: bool = False, progress: bool = False, offsets: bool = False, beside: bool = True) -> Names:
        """Names for which these lie on the victim, and the rest, the coordinators too, beside it.

        The topic has partition 0 on the victim, if ``data``, and partition 1 beside it; without ``beside`` partition 0
        alone.
        """
        number = next(_numbers)
        others = [node.id for node in self.kafka.nodes if node is not self.victim]
        replicas = [[self.victim.id if data else others[0]], *([[others[1]]] if beside else [])]
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        topic = f"frail-{number}"
        admin.create_topics([NewTopic(topic, len(replicas), replica_assignment=replicas)])[topic].result(60)
        wait_for(lambda: self.led(topic, range(len(replicas))), f"the leaders of {topic}")
        ids = (f"frail-{number}-{n}" for n in range(MANY))
        groups = (f"group-{number}-{n}" for n in range(MANY))
        transactional_id = next(i for i in ids if self.fits(i, on_victim=progress))
        return Names(
            topic,
            transactional_id,
            next(g for g in groups if self.leads(*offsets_partition(self.client, g)) == offsets),
        )

    def fits(self, transactional_id: str, *, on_victim: bool) -> bool:
        """Return whether the coordinator of this id lies beside the victim, and its progress where it should."""
        elsewhere = not self.client.connect(TransactionCoordinator(transactional_id)).address.endswith(
            f":{self.victim.port}"
        )
        return (
            elsewhere and self.leads(*ProgressTopic(self.client, transactional_id, "producer").partition) == on_victim
        )

    def leads(self, topic: str, index: int) -> bool:
        """Return whether the victim leads this partition."""
        return self.client.topics({topic})[topic].partitions[index].leader == self.victim.id

    def led(self, topic: str, indexes: range) -> bool:
        """Return whether all of these have a leader now."""
        known = self.client.existing({topic})
        return topic in known and all(
            index in known[topic].partitions and known[topic].partitions[index].leader >= 0 for index in indexes
        )

    @contextmanager
    def leaderless(self) -> Iterator[None]:
        """Freeze the victim, from the moment when its partitions have no leader. Bring it back at the end, with all of
        them led.

        Each of the other nodes knows it then: a coordinator that does not would leave its markers to the victim, which
        takes them when it thaws.
        """
        others = [node.id for node in self.kafka.nodes if node is not self.victim]
        self.victim.freeze()
        try:
            wait_for(lambda: all(self._leaderless_at(node) for node in others), "partitions without a leader")
            yield
        finally:
            self.victim.thaw()
        wait_for(lambda: self.led(DEFAULT_TOPIC, range(PARTITIONS)), "the leaders to be back")

    def _leaderless_at(self, node: int) -> bool:
        connection = self.client.connect(node)
        request = metadata_request({DEFAULT_TOPIC})
        told = Metadata.read(connection.call(request, connection.versions.pick(type(request), 12, 13)))
        return any(partition.leader < 0 for partition in told.topics[DEFAULT_TOPIC].partitions.values())


def losing_version() -> str:
    """Return the tested version if it loses markers, or else the newest one that does: 4.2 keeps the commit waiting
    until the partition is back.
    """
    named = os.environ.get(jars.VERSION_VARIABLE, "")
    return named if named in ("4.3.0", "4.3.1", "4.4.0") else "4.3.1"


@contextmanager
def frail() -> Iterator[Frail]:
    """Start it: 3 nodes, with a listener for the login ``app``, which may do everything but write markers."""
    with tempfile.TemporaryDirectory(prefix="semel-frail-") as directory:
        secured = Secured.make(Path(directory), {"app": "of app"})
        with Sandbox.start(nodes=3, version=losing_version(), secured=secured, settings=_ONE_REPLICA) as kafka:
            servers = kafka.bootstrap_servers
            admin = AdminClient({"bootstrap.servers": servers})
            nodes = itertools.cycle([node.id] for node in kafka.nodes)
            made = [
                NewTopic(
                    DEFAULT_TOPIC,
                    PARTITIONS,
                    replica_assignment=list(itertools.islice(nodes, PARTITIONS)),
                    config={"cleanup.policy": "compact"},
                )
            ]
            for done in admin.create_topics(made).values():
                done.result(60)
            reached = SecuredKafka(kafka, secured, admin)
            reached.allow("app", APP)
            with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
                _make_internal_topics(client)
                yield Frail(kafka, reached, client, kafka.nodes[2])


def _make_internal_topics(client: Client) -> None:
    fence(client, "first")
    live_members(client, "first")
