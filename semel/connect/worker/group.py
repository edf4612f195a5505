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
from semel.wire.group_member import GroupMember

__all__ = ["Role", "WorkerGroup", "WorkerProtocol"]

log = logging.getLogger("semel.connect")

_PROTOCOL = "semel"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Role:
    """The role of this worker: whether it leads, and the address of the leader's REST, or an empty text."""

    leads: bool
    url: str


class WorkerProtocol:
    """The words of workers: each names itself, and the leader sends its own to all."""

    kind = "connect"

    def __init__(self, group: str, topics: Sequence[str | None], support: str) -> None:
        self._group, self._topics, self._support = group, list(topics), support
        #: Where this worker's REST is.
        self.url = ""
        #: As far as is known; it stays what it was while the group changes.
        self.role: Role | None = None

    @property
    def _about(self) -> bytes:
        about = {"v": _VERSION, "url": self.url, "topics": self._topics, "place": _place(), "pid": os.getpid()}
        return write_object({**about, "support": self._support})

    def metadata(self) -> Mapping[str, bytes]:
        """Return what this worker says of itself."""
        return {_PROTOCOL: self._about}

    def assign(self, client: Client, joined: Joined) -> Mapping[str, bytes]:
        """Send the leader's own words to all. Refuse to lead workers for which records would come twice from now on. A
        leader refuses nobody.
        """
        led = self.role is not None and self.role.leads
        if self._support == "disabled" and not led:
            for member in joined.members.values():
                self._check_support(_read(member.metadata) or {})
        return dict.fromkeys(joined.members, self._about)

    def accept(self, joined: Joined, assignment: bytes) -> Role:
        """Compare this worker with the leader, and return its role."""
        leader = _read(assignment)
        if leader is None:
            raise ConfigError(
                f"the leader of group {self._group!r} is a worker of another version of semel. This one has written"
                " nothing. Have all workers of the group run one version.",
                tag="WORKERS_DIFFER",
            )
        if not joined.leads and leader.get("topics") != self._topics:
            raise ConfigError(
                f"the workers of group {self._group!r} keep their connectors in different topics: the leader in"
                f" {leader.get('topics')!r:.300}, this one in {self._topics!r:.300}. This one has written nothing. Give"
                " all of them the same config, offset and status topics, or another group.id.",
                tag="WORKERS_DIFFER",
            )
        if not joined.leads:
            self._check_support(leader)
        url = str(leader["url"])
        if not joined.leads and url and url == self.url:
            log.warning(
                "the leader says that its REST is at %s, which is where this worker listens: requests are not handed"
                " on. Set listeners and rest.advertised.host.name of each worker to an address of its own.",
                url,
            )
            url = ""
        self.role = Role(joined.leads, url)
        return self.role

    def outdated(self, client: Client) -> bool:
        """Return False: only a change of members moves anything."""
        return False

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


class WorkerGroup:
    """The membership of a worker, kept by a thread of its own."""

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
        self._config, self._group = config, group
        self._protocol = WorkerProtocol(group, topics, support)
        self._member = GroupMember(
            config,
            group,
            self._protocol,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            heartbeat_ms=heartbeat_ms,
            polled=False,
        )

    def join(self, url: str) -> None:
        """Join, and return once it is known who leads. ``url`` is where this worker's REST is.

        Raises :class:`ConfigError` where others are in the group, or workers that keep their connectors elsewhere, and
        :class:`Retriable` where the brokers do not answer.
        """
        self._protocol.url = url
        self._remove_dead()
        self._member.join()
        if self.error is not None:
            raise self.error

    @property
    def role(self) -> Role | None:
        """The role as far as is known. It stays what it was while the group changes."""
        return self._protocol.role if self._member.error is None else None

    @property
    def error(self) -> Exception | None:
        """Why this worker cannot be in the group any more."""
        error = self._member.error
        if isinstance(error, SemelError) and error.tag == "INCONSISTENT_GROUP_PROTOCOL":
            return ConfigError(
                f"group {self._group!r} has live members that are no workers of semel: Kafka's own Connect is at work,"
                " or another consumer. This worker has written nothing since. Stop them, or give another group.id.",
                tag="GROUP_IN_USE",
            )
        return error

    @property
    def leading(self) -> str:
        """The member id under which this worker leads, or an empty text."""
        generation = self._member.generation
        return generation.member if generation is not None and generation.leads else ""

    def still_leads(self, member: str) -> bool:
        """Ask the group whether this member has led without a break. A group removes a leader before it names another.

        Raises :class:`Retriable` while the group changes, and where the brokers do not answer.
        """
        generation = self._member.generation
        if generation is None or not member or not generation.leads or generation.member != member:
            return False
        with Client(self._config) as client:  # of its own: a join may hold the other one
            code = membership.heartbeat(client, self._group, generation.number, member)
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
        self._protocol.role = None
        self._member.join_again()

    def close(self) -> None:
        """Leave: another worker leads at once."""
        self._member.close()

    def _remove_dead(self) -> None:
        """Have workers leave that died on this machine: the group would wait for them until their session ends."""
        with suppress(SemelError), Client(self._config) as client:
            for member, about in membership.members(client, self._group, WorkerProtocol.kind).items():
                if _is_dead(about):
                    membership.leave(client, self._group, member)


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
