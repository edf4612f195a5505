"""Begin an application again from its input, as ``kafka-streams-application-reset.sh`` does."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from semel.errors import ConfigError
from semel.streams.app import App
from semel.wire.api import topics
from semel.wire.api.offsets import delete_group, live_members
from semel.wire.client import Client

__all__ = ["Reset", "plan_reset", "reset"]


@dataclass(frozen=True)
class Reset:
    """The things to delete: topics of the application, its group's offsets, and the state on this machine."""

    application_id: str
    topics: Sequence[str]
    folders: Sequence[Path]


def plan_reset(client: Client, app: App) -> Reset:
    """Say what a reset deletes. Raises :class:`ConfigError` while a worker of the application runs."""
    members = live_members(client, app.application_id)
    if members:
        raise ConfigError(
            f"application {app.application_id!r} has {len(members)} running workers. Nothing was deleted. Stop them"
            " first; a static member that was killed is gone after its session.timeout.ms.",
            tag="STILL_RUNNING",
        )
    found = sorted(client.existing(app.topology.internal_topics()))
    base, threads = app.settings.state_dir, app.settings.num_stream_threads
    folders = [place / app.application_id for place in (base, *(base / str(number) for number in range(threads)))]
    return Reset(app.application_id, found, [folder for folder in folders if folder.exists()])


def reset(client: Client, planned: Reset) -> None:
    """Delete it: the offsets last, so that a reset that was interrupted is seen by the next start."""
    for folder in planned.folders:
        shutil.rmtree(folder)
    for topic in planned.topics:
        topics.delete(client, topic)
    delete_group(client, planned.application_id)
