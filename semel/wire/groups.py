"""Membership in a consumer group of the classic protocol. kafka-python's consumer joins, sends heartbeats and
rebalances. It reads nothing.

Its partitions are paused and have a position, so that it neither fetches nor looks offsets up. The heartbeat runs in
its own thread. A rebalance is noticed at the next :meth:`GroupMember.poll`. A poll that comes later than
``max_poll_interval_ms`` costs the membership.

The assignors are range and round-robin, which every client has. Both are eager: in a rebalance each member gives up all
of its partitions, and gets an assignment for each generation.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from kafka import KafkaConsumer
from kafka import errors as kafka_errors
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from semel.config import ClientConfig
from semel.errors import ConfigError, Fenced, Retriable, SemelError, Unsupported
from semel.wire.metadata import TopicPartition
from semel.wire.security import tls_context
from semel.wire.task_assignor import TaskAssignor

__all__ = ["Assignment", "GroupMember"]

log = logging.getLogger("semel.wire")

_HEARTBEAT_MS = 3_000
_ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
#: The timeout of one answer about topics, in ms.
_METADATA_MS = 5_000
#: So often a member that waits for its group looks whether it is to stop.
_LOOK_MS = 1_000


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions of a member in one generation of its group, and its identity there, by which offsets are fenced
    (KIP-447).
    """

    partitions: frozenset[TopicPartition]
    id: str
    generation: int
    member: str
    instance: str | None


class GroupMember:
    """A member of a group. One thread uses it. :meth:`close` leaves the group, unless the member is static.

    ``on_revoked`` is called when its partitions are revoked, before other members get them. That happens while
    :meth:`poll` or :meth:`close` waits, in the consumer's thread, which sends no heartbeat meanwhile. Once ``stopping``
    says so, no poll waits for the group any more.
    """

    def __init__(
        self,
        config: ClientConfig,
        group: str,
        topics: Collection[str],
        *,
        instance: str | None,
        session_timeout_ms: int,
        max_poll_interval_ms: int,
        assignors: Sequence[str | TaskAssignor] = ("range", "roundrobin"),
        on_revoked: Callable[[], None] = lambda: None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._topics = sorted(topics)
        self._stopping = stopping
        self._on_revoked = on_revoked
        self._settings = {
            **_connection(config),
            "group_id": group,
            "group_instance_id": instance,
            "session_timeout_ms": session_timeout_ms,
            "heartbeat_interval_ms": max(1, min(_HEARTBEAT_MS, session_timeout_ms // 3)),
            "max_poll_interval_ms": max_poll_interval_ms,
            "enable_auto_commit": False,
            "allow_auto_create_topics": False,
            "partition_assignment_strategy": tuple(
                _ASSIGNORS[one] if isinstance(one, str) else one for one in assignors
            ),
        }
        self._consumer: Any = None
        self._listener = _Listener(on_revoked)

    def poll(self) -> Assignment | None:
        """Take part in the group: join it, or rebalance, until all have joined. Return the assignment, or None while it
        is not known. Return at once if nothing has changed.

        Two results are equal only if nothing has changed between them. Raise :class:`Fenced` if another member has this
        instance id now, :class:`ConfigError` if the brokers refuse, :class:`Retriable` if they do not answer.
        """
        try:
            # poll the coordinator alone: it returns as soon as the group is joined. The consumer's own poll would wait
            # out its time. A join that ends while no call waits for it is dropped and begins again (3.0.12)
            coordinator = self._open()._coordinator
            end = time.monotonic() + self._settings["max_poll_interval_ms"] / 1000 + 5
            # the next call waits for the same join: between two of them there is no time to end unseen
            while not coordinator.poll(timeout_ms=_LOOK_MS) and not self._stopping() and time.monotonic() < end:
                pass
            # its heartbeat ends silently if another member has the instance id (3.0.12): a member that only waits would
            # never return
            if not coordinator._heartbeat_enabled and coordinator.stable():
                raise kafka_errors.FencedInstanceIdError
            return self.current()
        except kafka_errors.KafkaError as error:
            raise self._translated(error) from error

    def current(self) -> Assignment | None:
        """Return the assignment as known now, the heartbeat's news included. No broker is asked."""
        got = self._listener.assigned
        if got is None or self._consumer is None:
            return None
        now = self._consumer.group_metadata()
        if now.generation_id < 0 or not now.member_id:  # the heartbeat found that the group continues without us
            return None
        return Assignment(got, now.group_id, now.generation_id, now.member_id, now.group_instance_id)

    def start_again(self) -> None:
        """Forget the membership: the next :meth:`poll` joins again."""
        self.close()

    def close(self) -> None:
        """Leave the group. A static member stays in it until its session times out, so that a restart moves nothing."""
        consumer, self._consumer = self._consumer, None
        self._listener = _Listener(self._on_revoked)
        if consumer is not None:
            try:
                consumer.close(autocommit=False, timeout_ms=min(5_000, self._settings["request_timeout_ms"]))
            except kafka_errors.KafkaError as error:
                log.warning("leaving group %r did not go well: %s", self._settings["group_id"], error)

    def _open(self) -> Any:
        if self._consumer is None:
            self._consumer = KafkaConsumer(**self._settings)
            self._listener = _Listener(self._on_revoked, self._consumer)
            self._consumer.subscribe(topics=self._topics, listener=self._listener)
            try:
                self._learn_topics()
            except BaseException:
                self.close()
                raise
        return self._consumer

    def _learn_topics(self) -> None:
        """Wait until the partitions are known: a group leader that does not know them assigns none.

        A leader would notice that later and join again. But if a static member is killed before, its successor gets the
        empty assignment, and no rebalance follows (measured, 3.0.12).
        """
        end = time.monotonic() + self._settings["bootstrap_timeout_ms"] / 1000
        cluster = self._consumer._cluster
        while not all(cluster.partitions_for_topic(topic) for topic in self._topics):
            if time.monotonic() > end:
                raise Retriable(
                    f"no broker named the partitions of {', '.join(self._topics)} within"
                    f" {self._settings['bootstrap_timeout_ms']} ms, so group {self._settings['group_id']!r} was not"
                    " joined. Nothing was committed. Check that the brokers run, then start again.",
                    tag="TIMEOUT",
                )
            self._consumer._net.run(self._consumer._manager.wait_for, cluster.request_update(), _METADATA_MS)

    def _translated(self, error: Exception) -> SemelError:
        group, instance = self._settings["group_id"], self._settings["group_instance_id"]
        if isinstance(error, kafka_errors.FencedInstanceIdError):
            return Fenced(
                f"another member of group {group!r} has come with group.instance.id {instance!r}. What this one had"
                " not committed is not visible. Give each worker an instance id of its own, and stop one of the two.",
                tag="FENCED_INSTANCE_ID",
            )
        text = f"taking part in group {group!r}: {type(error).__name__} {error}".rstrip()
        if isinstance(error, kafka_errors.UnsupportedVersionError):
            return Unsupported(f"{text}. Nothing was committed. Use brokers that semel supports.")
        if getattr(error, "retriable", False) or isinstance(error, kafka_errors.NoBrokersAvailable):
            return Retriable(f"{text}. Nothing was committed. Check that the brokers run, then start again.")
        return ConfigError(
            f"{text}. Nothing was committed. Check the group's name, its other members' assignors (range or"
            " roundrobin), its session timeout, and the right to read it.",
            tag="GROUP_REFUSED",
        )


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python ships no types
    """Keeps the assignment, and keeps the consumer from reading it. Called in the consumer's own thread."""

    def __init__(self, on_revoked: Callable[[], None], consumer: Any = None) -> None:
        self._on_revoked = on_revoked
        self._consumer = consumer
        self.assigned: frozenset[TopicPartition] | None = None

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Drop the assignment before the member joins the next generation, and before other members get its
        partitions.
        """
        self.assigned = None
        self._on_revoked()

    def on_partitions_lost(self, lost: Any) -> None:
        """Drop the assignment after a generation that continued without this member."""
        self.assigned = None
        self._on_revoked()

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Keep the assignment of a new generation, also if nothing has moved."""
        self._consumer.pause(*assigned)
        for partition in assigned:
            self._consumer.seek(partition, 0)  # with a position none is looked up; nothing is read from it
        self.assigned = frozenset((partition.topic, partition.partition) for partition in assigned)


def _connection(config: ClientConfig) -> dict[str, Any]:
    security = config.security
    settings: dict[str, Any] = {
        "bootstrap_servers": [
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in config.bootstrap_servers
        ],
        "client_id": config.client_id,
        "request_timeout_ms": config.request_timeout_ms,
        "bootstrap_timeout_ms": config.default_api_timeout_ms,
        "retry_backoff_ms": config.retry_backoff_ms,
        "metadata_max_age_ms": config.metadata_max_age_ms,
        "connections_max_idle_ms": max(540_000, config.request_timeout_ms + 1),
        "fetch_max_wait_ms": min(500, config.request_timeout_ms - 1),
        "isolation_level": "read_committed",
        "security_protocol": security.protocol,
        "metrics_enabled": False,
    }
    if security.tls is not None:
        settings |= {"ssl_context": tls_context(security.tls), "ssl_check_hostname": security.tls.check_host_name}
    if security.sasl is not None:
        if security.sasl.mechanism == "OAUTHBEARER":
            raise Unsupported(
                "a session in a consumer group cannot log in by OAUTHBEARER yet. Nothing was sent. Use SCRAM-SHA-512,"
                " PLAIN, or a client certificate."
            )
        settings |= {
            "sasl_mechanism": security.sasl.mechanism,
            "sasl_plain_username": security.sasl.username,
            "sasl_plain_password": security.sasl.password,
        }
    return settings
