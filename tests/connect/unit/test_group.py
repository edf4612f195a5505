"""What workers of one group say of themselves, compared: none makes its group at least once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from semel.config import ClientConfig
from semel.connect.worker.group import Role, WorkerProtocol
from semel.errors import ConfigError
from semel.strict_json import write_object
from semel.wire.api.membership import Joined, Member
from semel.wire.client import Client


def protocol(support: str) -> WorkerProtocol:
    return WorkerProtocol("g", ["offsets"], support)


def joined(leader: str, members: Mapping[str, bytes]) -> Joined:
    return Joined("connect", "semel", 2, "new", None, leader, {name: Member(said) for name, said in members.items()})


def about(support: str | None) -> bytes:
    said: dict[str, Any] = {"v": 1, "url": "", "topics": ["offsets"], "place": "here", "pid": 1}
    return write_object(said if support is None else {**said, "support": support})


@pytest.mark.parametrize(
    ("mine", "theirs", "refused"),
    [
        ("disabled", "enabled", True),
        ("enabled", "disabled", True),
        ("disabled", "disabled", False),
        ("enabled", "enabled", False),
        ("preparing", "enabled", False),
        ("preparing", "disabled", False),
        ("disabled", "preparing", False),
        ("enabled", "preparing", False),
        ("enabled", None, False),
        ("disabled", None, False),
    ],
)
def test_a_worker_is_compared_with_its_leader(mine: str, theirs: str | None, refused: bool) -> None:
    joins = protocol(mine)
    follows = joined("old", {})
    if refused:
        with pytest.raises(ConfigError, match=r"WORKERS_DIFFER.*exactly\.once\.source\.support"):
            joins.accept(follows, about(theirs))
        assert joins.role is None
    else:
        joins.accept(follows, about(theirs))
        assert joins.role == Role(leads=False, url="")


@pytest.mark.parametrize("theirs", ["enabled", "preparing", None])
def test_a_worker_does_not_begin_to_lead_others_at_least_once(theirs: str | None) -> None:
    """The leader has died, and the newcomer is made the leader of a worker that stood by."""
    leads = joined("new", {"new": about("disabled"), "old": about(theirs)})
    joins = protocol("disabled")
    with Client(ClientConfig.parse({"bootstrap.servers": "localhost:1"})) as client:
        if theirs == "enabled":
            with pytest.raises(ConfigError, match="WORKERS_DIFFER"):
                joins.assign(client, leads)
            joins.role = Role(leads=True, url="")  # who leads already goes on: the other one is refused
        assert joins.assign(client, leads).keys() == {"new", "old"}
