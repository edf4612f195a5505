"""A sign of life of a flow's driver, for one that stands by: a member of a group of its own on the target.

The group only says that a driver lives: ``session.timeout.ms`` after its last heartbeat the brokers remove it. Who may
write is fenced by the flow's transactional id. Without the right on the group, records are copied all the same.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from semel.config import ClientConfig
from semel.errors import AbortAndRetry, Retriable
from semel.mirror.background.periodic import PeriodicWork
from semel.mirror.config.flow_config import FlowConfig
from semel.wire.api.membership import Joined
from semel.wire.api.offsets import live_members
from semel.wire.client import Client
from semel.wire.group_member import GroupMember

__all__ = ["Presence", "driver_group", "wait_for_turn"]

log = logging.getLogger("semel.mirror")

#: Both together are the seconds from a driver's last sign of life to the takeover.
_SESSION_S, _EMPTY_S = 7, 3
_HEARTBEAT_S = 2
_REBALANCE_S = 10
#: How often a driver looks whether it is still in the group.
_LOOK_S = 5
_POLL_S = 0.5


def driver_group(config: FlowConfig) -> str:
    """Return the group of a flow's drivers."""
    return f"mirror-driver.{config.policy.source}.{config.policy.target}"


class _DriverProtocol:
    """The words of drivers: they say nothing, and share nothing out."""

    kind = "semel-mirror"

    def metadata(self) -> Mapping[str, bytes]:
        """Return the only protocol."""
        return {"semel": b""}

    def assign(self, client: Client, joined: Joined) -> Mapping[str, bytes]:
        """Assign nothing to all."""
        return dict.fromkeys(joined.members, b"")

    def accept(self, joined: Joined, assignment: bytes) -> None:
        """Take nothing."""

    def outdated(self, client: Client) -> bool:
        """Return False: nothing is shared out."""
        return False


class Presence:
    """Shows that this process runs a flow, until the block is left."""

    def __init__(self, config: FlowConfig) -> None:
        self._config = config
        self._member: GroupMember[None] | None = None
        self._closing = threading.Event()
        self._work = PeriodicWork(
            config.title, "a standby cannot see this driver", self._be_there, self._leave, _LOOK_S, at_once=True
        )

    def __enter__(self) -> Presence:
        self._work.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._work.stop()
        self._leave()  # a join that waits ends by that
        self._work.close()

    def _be_there(self) -> None:
        """Join the group, unless this driver is in it."""
        if self._member is not None and self._member.error is None:
            return
        self._leave()
        member = GroupMember(
            ClientConfig.parse(self._config.target),
            driver_group(self._config),
            _DriverProtocol(),
            session_timeout_ms=_SESSION_S * 1000,
            rebalance_timeout_ms=_REBALANCE_S * 1000,
            heartbeat_ms=_HEARTBEAT_S * 1000,
            polled=False,
        )
        self._member = member
        if self._closing.is_set():
            self._leave()
            return
        member.join()
        if member.error is not None and not self._closing.is_set():
            raise member.error

    def _leave(self) -> None:
        member, self._member = self._member, None
        if member is not None:
            member.close()


def wait_for_turn(config: FlowConfig, stop: threading.Event) -> bool:
    """Stand by until no driver of the flow shows a sign of life. Return False if this process is to end.

    Raises :class:`ConfigError` if this login may not look at the group.
    """
    group, empty_since, seen = driver_group(config), None, ""
    with Client(ClientConfig.parse(config.target)) as target:
        while not stop.wait(_POLL_S):
            try:
                members = live_members(target, group)
            except (AbortAndRetry, Retriable) as error:
                empty_since = None  # nothing is known of the driver now
                log.debug("%s: its drivers are not known now: %s", config.title, error)
                continue
            now = time.monotonic()
            if members:
                empty_since = None
                if members[0] != seen:
                    seen = members[0]
                    log.info("%s: standing by; %s runs it", config.title, seen)
            elif empty_since is None:
                empty_since = now
            elif now - empty_since >= _EMPTY_S:
                log.info("%s: no driver shows a sign of life: this one takes over", config.title)
                return True
    return False
