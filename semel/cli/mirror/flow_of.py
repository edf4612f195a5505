"""The flow that a command of ``semel mirror`` is about: ``--source`` and ``--target``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from semel.errors import ConfigError
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.config.properties import read_properties

__all__ = ["Source", "Target", "flow_of"]

Source = Annotated[str, typer.Option("--source", help="The flow's source cluster.")]
Target = Annotated[str, typer.Option("--target", help="The flow's target cluster.")]


def flow_of(file: Path, source: str, target: str) -> FlowConfig:
    """Return the flow. Raises :class:`ConfigError` if the file does not enable it."""
    config = read_properties(file).flow(source, target)
    if config is None:
        raise ConfigError(
            f"{source}->{target} is not enabled in {file}. Nothing was changed. Correct --source and --target.",
            tag="NO_FLOW",
        )
    return config
