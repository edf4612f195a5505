"""The settings that a progress topic needs, so that no progress is lost (PROTOCOL 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from semel.errors import ConfigError
from semel.read.internal_topic import policy_fault
from semel.wire.api import topics
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import Topic

__all__ = ["OF_THE_BROKERS", "OF_THE_TOPIC", "PARTITIONS", "faults", "look_for_faults"]

#: A prefix lives on partition murmur2(prefix) mod this, even if the topic has more partitions: added ones move no
#: prefix.
PARTITIONS = 16
OF_THE_TOPIC = ("cleanup.policy", "unclean.leader.election.enable", "min.insync.replicas")
#: The transaction log's: progress must be as safe as what says how its transaction ended.
OF_THE_BROKERS = ("transaction.state.log.replication.factor", "transaction.state.log.min.isr")


def look_for_faults(client: Client, topic: Topic, deadline: Deadline) -> tuple[list[str], list[str]]:
    """For who only looks: what is wrong with a progress topic, each to follow its name, and what could not be checked,
    and why.
    """
    unchecked: list[str] = []

    def read(ask: Callable[[], dict[str, str | None]]) -> dict[str, str | None]:
        try:
            return ask()
        except ConfigError as error:
            unchecked.append(error.message)
            return {}

    settings = read(lambda: topics.topic_config(client, topic.name, OF_THE_TOPIC, deadline))
    log_settings = read(lambda: topics.broker_config(client, OF_THE_BROKERS, deadline))
    partition_faults = (
        [f"has {len(topic.partitions)} partitions, and must have at least {PARTITIONS}"]
        if len(topic.partitions) < PARTITIONS
        else []
    )
    return partition_faults + (faults(topic, settings, log_settings) if settings else []), unchecked


def faults(topic: Topic, settings: Mapping[str, str | None], log_settings: Mapping[str, str | None]) -> list[str]:
    """Return how a topic with these settings could lose progress, each to follow its name.

    What could not be read of the transaction log is passed over.
    """
    problems = [fault] if (fault := policy_fault(settings)) else []
    replication = min(len(partition.replicas) for partition in topic.partitions.values())
    _, unclean, min_isr = (settings.get(name) for name in OF_THE_TOPIC)
    log_replication, log_min_isr = (log_settings.get(name) for name in OF_THE_BROKERS)
    if unclean == "true":
        problems.append("allows unclean leader election: committed progress could be lost")
    if replication < int(log_replication or 0):
        problems.append(f"has replication {replication}, less than the transaction log's {log_replication}")
    if int(min_isr or 1) < int(log_min_isr or 0):
        problems.append(f"has min.insync.replicas={min_isr}, less than the transaction log's {log_min_isr}")
    return problems
