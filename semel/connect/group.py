"""The workers of one ``group.id``: a Kafka group of type ``connect``, whose leader runs everything.

Its protocol is semel's own, so a broker refuses the second one if Kafka's own Connect and semel's are in one group. A
member names its REST address, its topics, and its support for exactly once. The leader sends its own to all others.

The group says only who should lead. The transactional ids of the leader and of the tasks keep all others from changing
anything.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semel.config import ClientConfig
from semel.errors import ConfigError, Retriable, SemelError
from semel.strict_json import is_version, read_object, write_object
from semel.wire.api import membership
from semel.wire.api.membership import Joined
from semel.wire.client import Client

__all__ = ["Role", "WorkerGroup"]

log = logging.getLogger("semel.connect")

_KIND, _PROTOCOL = "connect", "semel"
_VERSION = 1
_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Role:
    """The role of this worker: whether it leads, and the address of the leader's REST, or an empty text."""

    leads: bool
    url: str


class WorkerGroup:
    """A membership, kept by a thread of its own."""

    def __init__(
        self,
        config: ClientConfig,
        group: str,
        topics: Sequence[str | None],
        *,
        support: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        heartbeat_ms: int,
    ) -> None:
        self._config, self._group, self._topics, self._support = config, group, list(topics), support
        self._session_timeout_ms, self._rebalance_timeout_ms = session_timeout_ms, rebalance_timeout_ms
        self._heartbeat_s = heartbeat_ms / 1000
        self._about: dict[str, Any] = {}
        self._member = ""
        #: The newest generation of which this worker knows its role.
        self._joined: Joined | None = None
        self._client = Client(config)  # of its own: joining holds a connection
        self._thread: threading.Thread | None = None
        self._settled, self._wake, self._closing = threading.Event(), threading.Event(), threading.Event()
        #: As far as is known; it stays what it was while the group changes.
        self.role: Role | None = None
        #: Why this worker cannot be in the group any more.
        self.error: SemelError | None = None

    def join(self, url: str) -> None:
        """Join, and return once it is known who leads. ``url`` is where this worker's REST is.

        Raises :class:`ConfigError` where others are in the group, or workers that keep their connectors elsewhere, and
        :class:`Retriable` where the brokers do not answer.
        """
        self._about = {"v": _VERSION, "url": url, "topics": self._topics, "place": _place(), "pid": os.getpid()}
        self._about["support"] = self._support
        self._remove_dead()
        self._thread = threading.Thread(target=self._run, name="semel-connect-group", daemon=True)
        self._thread.start()
        self._settled.wait()
        if self.error is not None:
            raise self.error

    @property
    def leading(self) -> str:
        """The member id under which this worker leads, or an empty text."""
        joined = self._joined
        return joined.member if joined is not None and joined.leads else ""

    def still_leads(self, member: str) -> bool:
        """Ask the group whether this member has led without a break. A group removes a leader before it names another.

        Raises :class:`Retriable` while the group changes, and where the brokers do not answer.
        """
        joined = self._joined
        if joined is None or not member or self.leading != member:
            return False
        with Client(self._config) as client:  # of its own: a join may hold the other one
            code = membership.heartbeat(client, self._group, joined)
        if code == membership.UNKNOWN_MEMBER:
            return False
        if code:
            raise Retriable(
                f"group {self._group!r} changes now, and its next leader is not known. Nothing was written. Ask again.",
                tag="NOT_LEADER",
            )
        return True

    def join_again(self) -> None:
        """Leave, so that another worker may lead, and join again."""
        self.role = self._joined = None
        self._leave()
        self._wake.set()

    def close(self) -> None:
        """Leave: another worker leads at once."""
        self._closing.set()
        self._wake.set()
        self._leave()
        self._client.close()
        if self._thread is not None:
            self._thread.join(10)

    # ---- the thread

    def _run(self) -> None:
        while True:
            self._wake.clear()
            if self._closing.is_set():
                return
            try:
                self._take_part()
            except Retriable as error:
                if not self._settled.is_set():
                    self._end(error)
                    return
                log.warning("group %s: %s", self._group, error)
                self._wake.wait(_RETRY_S)
            except SemelError as error:
                if not self._closing.is_set():
                    self._end(error)
                return

    def _take_part(self) -> None:
        """Join, and stay for one generation."""
        joined = membership.join(
            self._client,
            self._group,
            self._member,
            kind=_KIND,
            protocol=_PROTOCOL,
            about=write_object(self._about),
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
        )
        self._member = joined.member if joined is not None else ""
        if joined is None:
            self._joined = None
            return
        if self._closing.is_set():  # it left before it was in
            self._leave()
            return
        if joined.leads:
            self._check_members(joined.members)
        told = write_object(self._about) if joined.leads else b""
        shares = dict.fromkeys(joined.members, told) if joined.leads else {}
        given = membership.sync(self._client, self._group, joined, shares, kind=_KIND, protocol=_PROTOCOL)
        if given is None:
            return
        self._take_role(joined.leads, given)
        self._joined = joined
        self._settled.set()
        self._stay(joined)

    def _take_role(self, leads: bool, told: bytes) -> None:
        leader = _read(told)
        if leader is None:
            raise ConfigError(
                f"the leader of group {self._group!r} is a worker of another version of semel. This one has written"
                " nothing. Have all workers of the group run one version.",
                tag="WORKERS_DIFFER",
            )
        if not leads and leader.get("topics") != self._topics:
            raise ConfigError(
                f"the workers of group {self._group!r} keep their connectors in different topics: the leader in"
                f" {leader.get('topics')!r:.300}, this one in {self._topics!r:.300}. This one has written nothing. Give"
                " all of them the same config, offset and status topics, or another group.id.",
                tag="WORKERS_DIFFER",
            )
        if not leads:
            self._check_support(leader)
        url = str(leader["url"])
        if not leads and url and url == self._about["url"]:
            log.warning(
                "the leader says that its REST is at %s, which is where this worker listens: requests are not handed"
                " on. Set listeners and rest.advertised.host.name of each worker to an address of its own.",
                url,
            )
            url = ""
        self.role = Role(leads, url)

    def _check_members(self, members: Mapping[str, bytes]) -> None:
        """Refuse to lead workers for which records would come twice from now on. A leader refuses nobody."""
        led = self.role is not None and self.role.leads
        if self._support == "disabled" and not led:
            for about in members.values():
                self._check_support(_read(about) or {})

    def _check_support(self, other: Mapping[str, Any]) -> None:
        """Compare with another worker. One of an older semel does not say; preparing goes with each."""
        theirs = other.get("support")
        if {self._support, theirs} == {"disabled", "enabled"}:
            raise ConfigError(
                f"the workers of group {self._group!r} differ in exactly.once.source.support: another one has {theirs},"
                f" this one {self._support}. This one has written nothing. Give all of them the same value; preparing"
                " goes with each of the two while you change it.",
                tag="WORKERS_DIFFER",
            )

    def _stay(self, joined: Joined) -> None:
        """Send heartbeats until the group wants another generation."""
        code = 0
        while not code and not self._wake.wait(self._heartbeat_s):
            code = membership.heartbeat(
                self._client, self._group, joined, self._client.deadline(self._session_timeout_ms)
            )

    def _end(self, error: SemelError) -> None:
        if error.tag == "INCONSISTENT_GROUP_PROTOCOL":
            error = ConfigError(
                f"group {self._group!r} has live members that are no workers of semel: Kafka's own Connect is at work,"
                " or another consumer. This worker has written nothing since. Stop them, or give another group.id.",
                tag="GROUP_IN_USE",
            )
        self.error, self.role, self._joined = error, None, None
        self._settled.set()

    # ---- leaving

    def _leave(self) -> None:
        member = self._member
        if member:
            with suppress(SemelError), Client(self._config) as client:
                membership.leave(client, self._group, member)

    def _remove_dead(self) -> None:
        """Have workers leave that died on this machine: the group would wait for them until their session ends."""
        with suppress(SemelError):
            for member, about in membership.members(self._client, self._group, _KIND).items():
                if _is_dead(about):
                    membership.leave(self._client, self._group, member)


def _place() -> str:
    """Return the place in which a pid names one process."""
    try:
        namespace = Path("/proc/self/ns/pid").stat().st_ino
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()  # machines may have one name
    except OSError:  # a system without
        namespace, boot = 0, ""
    return f"{socket.gethostname()}/{boot}/{namespace}"


def _read(about: bytes) -> dict[str, Any] | None:
    """Parse a member's own words. Return None for a version that is unknown."""
    try:
        found = read_object(about)
    except ValueError:
        return None
    known = is_version(found.get("v"), _VERSION) and isinstance(found.get("url"), str)
    return found if known and type(found.get("pid")) is int else None


def _is_dead(about: bytes) -> bool:
    said = _read(about)
    if said is None or said.get("place") != _place():
        return False
    try:
        os.kill(said["pid"], 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
