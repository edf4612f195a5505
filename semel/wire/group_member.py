"""A member of a group of the classic protocol: sessions and streams workers, and the workers of Connect.

One thread joins, sends heartbeats and leaves. What members say to each other is a :class:`GroupProtocol`.

A member that is *polled* joins only while :meth:`GroupMember.poll` waits. Until then it stays in its generation, so
that what it reads is revoked in the thread that reads. If no poll comes within ``rebalance_timeout_ms``, it leaves.
Another one joins each generation by itself.

All rebalances are eager: what a member had is revoked before it joins the next generation. A cooperative protocol
(KIP-429) would say in its metadata what the member keeps. :meth:`GroupMember.poll` would revoke only the rest, after
it has joined.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from semel.config import ClientConfig
from semel.errors import Fenced, Retriable, SemelError
from semel.wire.api import membership
from semel.wire.api.membership import Joined
from semel.wire.client import Client
from semel.wire.deadline import Deadline

__all__ = ["Generation", "GroupMember", "GroupProtocol"]

log = logging.getLogger("semel.wire")

#: A poll that waits for its group looks this often whether it is to stop, in seconds.
_LOOK_S = 1.0
#: The pause of a member that joins by itself, after brokers did not answer.
_RETRY_S = 1.0
#: Leaving is a courtesy: its timeout, in ms.
_LEAVE_MS = 5_000

A = TypeVar("A", covariant=True)


class GroupProtocol(Protocol[A]):
    """The words of a group's members. All methods are called in the member's thread, with its client."""

    #: The group's protocol type.
    kind: str

    def metadata(self) -> Mapping[str, bytes]:
        """Return what this member says as it joins, for each protocol that it has, the preferred one first."""

    def assign(self, client: Client, joined: Joined) -> Mapping[str, bytes]:
        """Return the assignment of each member. Called in the group's leader."""

    def accept(self, joined: Joined, assignment: bytes) -> A:
        """Return the meaning of this member's assignment. What it raises ends the membership."""

    def outdated(self, client: Client) -> bool:
        """Return True if the group's leader should share out again. Called at heartbeats."""


@dataclass(frozen=True, slots=True, eq=False)
class Generation(Generic[A]):
    """The assignment of a member in one generation of its group, and its identity there, by which offsets are fenced
    (KIP-447).

    Each join makes another one: a follower that joins again may get the same number, member id and assignment.
    """

    group: str
    number: int
    member: str
    instance: str | None
    leads: bool
    assignment: A


class GroupMember(Generic[A]):
    """A member of a group. One thread polls it. :meth:`close` leaves the group, unless the member is static.

    ``on_revoked`` is called in the thread that polls, before the member joins another generation, and so before other
    members get its assignment. Heartbeats are sent meanwhile. Once ``stopping`` is true, no poll waits for the group.
    """

    def __init__(
        self,
        config: ClientConfig,
        group: str,
        protocol: GroupProtocol[A],
        *,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        heartbeat_ms: int,
        polled: bool,
        instance: str | None = None,
        on_revoked: Callable[[], None] = lambda: None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._config, self._group, self._protocol, self._instance = config, group, protocol, instance
        self._session_timeout_ms, self._rebalance_timeout_ms = session_timeout_ms, rebalance_timeout_ms
        self._heartbeat_s, self._polled = heartbeat_ms / 1000, polled
        self._on_revoked, self._stopping = on_revoked, stopping
        self._client = Client(config)  # of its own: a join holds a connection
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        # ---- under this lock
        self._member = ""
        self._generation: Generation[A] | None = None
        self._settled = self._lost = self._due = self._wanted = self._leaving = self._closing = False
        self._error: Exception | None = None
        self._polled_at = time.monotonic()
        #: Of the request at hand.
        self._deadline = self._client.deadline(0)

    # ---- as its user sees it

    @property
    def generation(self) -> Generation[A] | None:
        """The newest generation of this member, until the group has answered that it does not know the member."""
        return self._generation

    @property
    def error(self) -> Exception | None:
        """Why this member is in no group any more."""
        return self._error

    def current(self) -> Generation[A] | None:
        """Return the generation if this member is still in it, by the last heartbeat. No broker is asked.

        Raise :class:`Fenced` if another member has this instance id now.
        """
        with self._changed:
            if isinstance(self._error, Fenced):
                raise self._error
            return None if self._lost else self._generation

    def join(self) -> None:
        """Join, and wait until the first assignment is known, or the :attr:`error` that keeps the member out."""
        with self._changed:
            self._begin()
            self._changed.wait_for(lambda: self._generation is not None or self._error is not None or self._closing)

    def poll(self) -> Generation[A] | None:
        """Take part in the group: join it, or rebalance, until all have joined. Return None if that is not done when
        this member is to stop, or within the time of a rebalance. Return at once if nothing has changed.

        Two results are equal only if nothing has changed between them. Raise :class:`Fenced` if another member has this
        instance id now, :class:`~semel.errors.ConfigError` if the brokers refuse, :class:`Retriable` if they do not
        answer.
        """
        with self._changed:
            self._polled_at = time.monotonic()
            rejoins = not self._wanted and self._error is None and (self._due or self.current() is None)
        if rejoins:
            self._on_revoked()
            with self._changed:
                self._generation, self._polled_at = None, time.monotonic()
                self._begin()
        return self._await_generation()

    def _await_generation(self) -> Generation[A] | None:
        end = time.monotonic() + self._rebalance_timeout_ms / 1000 + 5
        with self._changed:
            while self._wanted and not self._stopping() and time.monotonic() < end:
                self._changed.wait(_LOOK_S)
                self._polled_at = time.monotonic()
            error = self._error
            if error is not None and not isinstance(error, Fenced):
                self._error = None  # the next poll tries again
                raise error
            return self.current()

    def rejoin(self) -> None:
        """Have the next poll of a polled member join again, with what its protocol says then. It stays a member."""
        with self._changed:
            self._due = True

    def join_again(self) -> None:
        """Leave, and join again as a new member: a polled one at its next poll.

        It has left before it joins: the group names the next leader as the former one leaves, among those it has then.
        """
        with self._changed:
            member, self._wanted, self._leaving = self._forget(), False, True
            self._changed.notify_all()
        self._leave(member)
        with self._changed:
            self._wanted, self._leaving = not self._polled and self._error is None, False
            self._changed.notify_all()

    def close(self) -> None:
        """Leave the group. A static member stays in it until its session times out, so that a restart moves nothing."""
        with self._changed:
            self._closing = True
            self._deadline.expire()  # a join that is sent again would fence the next one of a static member
            member = self._forget()
            self._changed.notify_all()
        self._leave(member)
        self._client.close()
        if self._thread is not None:
            self._thread.join(_LEAVE_MS / 1000)

    # ---- states; the lock is held

    def _begin(self) -> None:
        self._wanted = True
        self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"semel-group-{self._group}", daemon=True)
            self._thread.start()

    def _forget(self) -> str:
        """Forget the generation, and the member id unless it is a static member's. Return the id to leave with."""
        self._generation = None
        if self._instance is not None:
            return ""
        member, self._member = self._member, ""
        return member

    def _end_generation(self, *, lost: bool) -> None:
        """Join the next generation, once that is allowed."""
        self._lost, self._due = self._lost or lost, True
        self._wanted = self._wanted or not self._polled  # a poll may wait already
        self._changed.notify_all()

    def _limit(self, timeout_ms: int) -> Deadline:
        with self._changed:
            self._deadline = self._client.deadline(0 if self._closing else timeout_ms)
            return self._deadline

    # ---- the thread

    def _run(self) -> None:
        while self._await_turn():
            try:
                self._take_part()
            except Exception as error:  # whatever it is: its user waits for it
                self._fail(error)
        with self._changed:
            member = self._forget()
        self._leave(member)  # it has joined while it was closed
        self._client.close()

    def _await_turn(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: (self._wanted and not self._leaving) or self._closing)
            return not self._closing

    def _fail(self, error: Exception) -> None:
        with self._changed:
            if self._closing:
                return
            if self._polled or not self._settled or not isinstance(error, Retriable):
                self._error, self._generation, self._wanted = error, None, False
                self._changed.notify_all()
                return
            log.warning("group %s: %s", self._group, error)
            self._changed.wait_for(lambda: self._closing, _RETRY_S)

    def _take_part(self) -> None:
        """Join, and stay for one generation."""
        deadline = self._limit(self._rebalance_timeout_ms + self._session_timeout_ms)
        joined = membership.join(
            self._client,
            self._group,
            self._member,
            instance=self._instance,
            kind=self._protocol.kind,
            protocols=self._protocol.metadata(),
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            deadline=deadline,
        )
        with self._changed:
            self._member = joined if isinstance(joined, str) else joined.member
            if not self._member:
                self._generation = None
                self._changed.wait_for(lambda: self._closing, self._config.retry_backoff_ms / 1000)
        if isinstance(joined, str) or self._closing:
            return
        shares = self._protocol.assign(self._client, joined) if joined.leads else {}
        shares = {} if joined.unchanged else shares
        data = membership.sync(self._client, self._group, joined, shares, deadline)
        if data is None:
            return
        assignment = self._protocol.accept(joined, data)
        with self._changed:
            if self._member != joined.member:  # it has left meanwhile
                return
            self._generation = Generation(
                self._group, joined.generation, joined.member, self._instance, joined.leads, assignment
            )
            self._settled, self._lost, self._due, self._wanted = True, False, False, False
            self._changed.notify_all()
        self._stay(joined)

    def _stay(self, joined: Joined) -> None:
        """Send heartbeats until another generation is wanted."""
        while self._await_heartbeat():
            try:
                deadline = self._limit(self._session_timeout_ms)
                code = membership.heartbeat(
                    self._client, self._group, joined.generation, joined.member, joined.instance, deadline
                )
            except Retriable as error:
                if not self._closing:
                    log.warning("group %s: %s", self._group, error)
                code = membership.UNKNOWN_MEMBER
            if code or (joined.leads and self._protocol.outdated(self._client)):
                with self._changed:
                    self._end_generation(lost=code in membership.GONE)

    def _await_heartbeat(self) -> bool:
        """Wait until a heartbeat is due. Return False if none is. Leave the group if no poll has come in time."""
        with self._changed:
            self._changed.wait_for(self._between, max(0.0, min(self._heartbeat_s, self._poll_left_s())))
            if self._between():
                return False
            if self._poll_left_s() > 0:
                return True
            self._end_generation(lost=True)
            member = self._forget()
        self._leave(member)
        return False

    def _poll_left_s(self) -> float:
        """Return the seconds that are left for the next poll."""
        return self._polled_at + self._rebalance_timeout_ms / 1000 - time.monotonic() if self._polled else math.inf

    def _between(self) -> bool:
        return self._wanted or self._lost or self._closing or self._generation is None

    def _leave(self, member: str) -> None:
        if member:
            with suppress(SemelError), Client(self._config) as client:
                membership.leave(client, self._group, member, client.deadline(_LEAVE_MS))
