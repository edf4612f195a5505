"""``semel progress rename``: the progress of one prefix, moved to another."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from semel.admin.progress_rename import rename
from semel.admin.progress_reset import scope_of
from semel.cli.options import (
    Configured,
    ProgressTopic,
    Servers,
    confirm,
    connect,
)
from semel.errors import ConfigError
from semel.transaction.progress.topic import DEFAULT_TOPIC

__all__ = ["rename_prefix"]


def rename_prefix(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The transactionalIdPrefix that has the progress.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The transactionalIdPrefix that will have it.")],
    bootstrap_server: Servers,
    command_config: Configured = None,
    scope: Annotated[
        str | None, typer.Option(help="The kind of owner, if OLD has several: query, batch or producer.")
    ] = None,
    progress_topic: ProgressTopic = DEFAULT_TOPIC,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Move the progress of a prefix to another prefix, in one transaction.

    (1) Stop the query: the command fences a query that runs under OLD or NEW. (2) Run this command. (3) Set
    transactionalIdPrefix to NEW, and start the query with the same checkpoint. OLD is refused from then on.
    """
    console = Console(soft_wrap=True)
    with connect(bootstrap_server, command_config) as client:
        whose = scope_of(client, old, progress_topic, scope)
        if whose is None:
            raise ConfigError(
                f"{old!r} has no progress in {progress_topic!r}. Nothing was changed. Correct the name: `semel progress"
                " list` shows all prefixes.",
                tag="NO_PROGRESS",
            )
        question = f"A query that runs under {old} or {new} is fenced. Rename?"
        confirm(console, question, "Nothing was changed.", yes=yes)
        progress = rename(client, old, new, scope=whose, progress_topic=progress_topic)
    at = f" at batch {progress.batch}" if progress.batch is not None else ""
    console.print(f"renamed: {new} resumes{at} where {old} stood")
    console.print(f"\nnext: set transactionalIdPrefix={new}, and start with the same checkpoint")
