"""What workers of one group say of themselves, compared: none makes its group at least once."""

from __future__ import annotations

from typing import Any

import pytest

from semel.config import ClientConfig
from semel.connect.group import Role, WorkerGroup
from semel.errors import ConfigError
from semel.strict_json import write_object
from semel.wire.api.membership import Joined


def group(support: str) -> WorkerGroup:
    config = ClientConfig.parse({"bootstrap.servers": "localhost:1"})
    return WorkerGroup(
        config,
        "g",
        ["offsets"],
        support=support,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        heartbeat_ms=3_000,
    )


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
    joins = group(mine)
    joins._about = {"url": ""}
    if refused:
        with pytest.raises(ConfigError, match=r"WORKERS_DIFFER.*exactly\.once\.source\.support"):
            joins._take_role(False, about(theirs))
        assert joins.role is None
    else:
        joins._take_role(False, about(theirs))
        assert joins.role == Role(leads=False, url="")


@pytest.mark.parametrize("theirs", ["enabled", "preparing", None])
def test_a_worker_does_not_begin_to_lead_others_at_least_once(
    monkeypatch: pytest.MonkeyPatch, theirs: str | None
) -> None:
    """The leader has died, and the newcomer is made the leader of a worker that stood by."""
    joined = Joined(generation=2, member="new", leader="new", members={"new": about("disabled"), "old": about(theirs)})
    shared: list[Any] = []

    def sync(*given: Any, **_: Any) -> None:
        shared.append(given[3])

    monkeypatch.setattr("semel.wire.api.membership.join", lambda *_, **__: joined)
    monkeypatch.setattr("semel.wire.api.membership.sync", sync)
    joins = group("disabled")
    if theirs == "enabled":
        with pytest.raises(ConfigError, match="WORKERS_DIFFER"):
            joins._take_part()
        assert not shared
        joins.role = Role(leads=True, url="")  # who leads already goes on: the other one is refused
    joins._take_part()
    assert len(shared) == 1
