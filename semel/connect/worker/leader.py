"""The leader of a group's workers: who owns the transactional id ``connect-cluster-<group.id>`` (KIP-618).

A new owner of the id fences the former leader, whose next write or proof then fails. A leader writes only in
transactions on that id, so a fenced leader changes nothing any more.

The group decides who leads. A leader that was fenced while it still leads the group takes the id again, as Kafka
Connect's does: a program outside the group has used the id, or a former leader did.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn, Protocol

from semel.connect.stores.config_format import Record
from semel.connect.stores.internal_topics import record_table
from semel.errors import Fenced, Retriable
from semel.transaction.producer import Producer
from semel.wire.api.describe_transactions import describe
from semel.wire.client import Client

__all__ = ["IdTaken", "Leader", "Membership", "leader_id"]

log = logging.getLogger("semel.connect")


def leader_id(group_id: str) -> str:
    """Return the transactional id of a group's leader, as Kafka Connect names it."""
    return f"connect-cluster-{group_id}"


class IdTaken(Retriable):
    """Another producer has taken the leader's id. Whether another worker leads is not known yet."""

    default_tag = "NOT_LEADER"


class Membership(Protocol):
    """The membership of the group: a :class:`~semel.connect.worker.group.WorkerGroup`."""

    @property
    def leading(self) -> str:
        """The member id under which this worker leads, or an empty text."""

    def still_leads(self, member: str) -> bool:
        """Ask the group whether this member has led without a break."""


class Leader:
    """Holds the id. Any thread may use it; they take turns."""

    def __init__(self, client: Client, group_id: str, membership: Membership) -> None:
        self._client, self._group, self._membership = client, group_id, membership
        self._lock = threading.Lock()
        self._producer = self._made()
        #: After an end without an answer, the id is taken over again before anything else.
        self._again = False
        #: The member id under which it led when it last owned the id.
        self._member = ""
        self._taken = False
        #: Set once another worker leads.
        self.lost = threading.Event()

    def take_over(self) -> None:
        """Become the leader. Raises what :meth:`Producer.take_over` raises."""
        with self._lock:
            self._member = self._membership.leading
            self._producer.take_over()

    def take_again(self) -> None:
        """Take the id again after :class:`IdTaken`, if the group says that this worker has led without a break.

        Raises :class:`Fenced` where another worker leads or has led, and :class:`Retriable` where that is not known.
        """
        with self._lock:
            if self.lost.is_set():
                raise _not_leader(self._group)
            self._check_membership()
            log.warning(
                "another producer has used %r, and this worker leads group %r all the same: it takes the id again",
                leader_id(self._group),
                self._group,
            )
            try:
                self._producer = self._made()
                self._producer.take_over()
            except Fenced as error:
                raise self._id_taken() from error
            self._check_membership()  # it may have been frozen since it was asked
            self._taken = self._again = False

    def _check_membership(self) -> None:
        if not self._membership.still_leads(self._member):
            self.give_up()

    def give_up(self) -> NoReturn:
        """Lead no more. Raises :class:`Fenced`."""
        self.lost.set()
        raise _not_leader(self._group)

    def write(self, topic: str, records: Sequence[Record]) -> int:
        """Write records to partition 0 in one transaction. Returns the offset of the last.

        Raises :class:`Fenced` if another worker leads, :class:`IdTaken` until the id is taken again, and
        :class:`Retriable` if no answer says how it ended: read the log again then.
        """
        rows = record_table([key for key, _ in records], [value for _, value in records], [0] * len(records))
        with self._lock, self._watched():
            with self._producer.transaction() as txn:
                txn.send(topic, rows)
            self._producer.wait_visible()
            return txn.wrote[topic, 0].last

    def check(self) -> None:
        """Prove that this worker still leads. Raises :class:`Fenced` where another does, and :class:`IdTaken` until the
        id is taken again.
        """
        with self._lock, self._watched():
            self._producer.check_owner()

    def close(self) -> None:
        """Release the id."""
        with self._lock:
            self._producer.close()

    def _made(self) -> Producer:
        # the config topic is the truth: an id that Kafka Connect has used before has no progress of ours
        return Producer(self._client, leader_id(self._group), scope="connect", may_have_lost_progress=True)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Turn what the producer raises into what a leader says."""
        if self.lost.is_set():
            raise _not_leader(self._group)
        if self._taken:
            raise self._id_taken()
        member = self._membership.leading
        try:
            if self._again:
                self._recover()
            yield
        except Fenced as error:
            self._taken = True
            raise self._id_taken() from error
        except Retriable as error:
            self._again = error.tag != "COMMITTED"
            raise
        self._member = member  # until now no other worker had the id: this member has led without a break

    def _recover(self) -> None:
        """Take over again after an end without an answer, unless another worker has come since."""
        description = describe(self._client, leader_id(self._group))
        if description is None or (description.producer_id, description.epoch) not in self._producer.next_identities:
            raise Fenced("the id has another owner", tag="NOT_LEADER")
        self._producer = self._made()
        self._producer.take_over()
        self._again = False

    def _id_taken(self) -> IdTaken:
        return IdTaken(
            f"another producer has used {leader_id(self._group)!r}. Tasks run on, and nothing of this request was"
            " written. The worker takes the id again while it leads its group: ask again."
        )


def _not_leader(group: str) -> Fenced:
    return Fenced(
        f"another worker of group {group!r} has taken over. This one has written nothing since: it ends its tasks, and"
        " stands by. Look at the other one.",
        tag="NOT_LEADER",
    )
