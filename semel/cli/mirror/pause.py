"""``semel mirror pause``, ``resume`` and ``stop``: what a flow is to do, whether it runs now or not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from semel.cli.mirror.flow_of import Source, Target, flow_of
from semel.cli.options import MirrorFile
from semel.config import ClientConfig
from semel.mirror.operation.wanted import FlowState, pause_topic, set_state
from semel.wire.client import Client

__all__ = ["pause", "resume", "stop"]

Topic = Annotated[str, typer.Option("--topic", help="Only this topic, by its name on the source.")]


def pause(file: MirrorFile, source: Source, target: Target, topic: Topic = "") -> None:
    """Pause a flow, or one of its topics.

    A mirror that runs the flow sees it within about a second, and ends its round first. The flow stays paused after a
    restart, until `semel mirror resume`.
    """
    _set(file, source, target, topic, FlowState.PAUSED)


def resume(file: MirrorFile, source: Source, target: Target, topic: Topic = "") -> None:
    """Resume a flow that is paused or stopped, or one of its topics.

    Topics that you have paused alone stay paused when the flow is resumed.
    """
    _set(file, source, target, topic, FlowState.RUNNING)


def stop(file: MirrorFile, source: Source, target: Target) -> None:
    """Stop a flow: a mirror that runs it releases its transactional id, and waits.

    A flow must be stopped before its offsets can be set. `semel mirror resume` continues it.
    """
    _set(file, source, target, "", FlowState.STOPPED)


def _set(file: Path, source: str, target: str, topic: str, state: FlowState) -> None:
    config = flow_of(file, source, target)
    with Client(ClientConfig.parse(config.target)) as there:
        if topic:
            wanted = pause_topic(there, config, topic, is_paused=state is FlowState.PAUSED)
        else:
            wanted = set_state(there, config, state)
    console = Console(soft_wrap=True)
    console.print(f"{config.title} is {wanted.state.value.lower()}", highlight=False)
    if wanted.paused_topics:
        console.print(f"paused alone: {', '.join(sorted(wanted.paused_topics))}", highlight=False)
