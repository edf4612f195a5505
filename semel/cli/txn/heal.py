"""``semel txn heal``: write the marker that a broker has lost, as its transaction had ended, or as the operator
decides.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from semel.admin.txn_heal import OpenRows, find_open_rows, write_marker
from semel.cli.options import AsJson, Configured, Servers, connect, exit_1_on_no, print_json, print_table
from semel.transaction.progress.topic import DEFAULT_TOPIC

__all__ = ["heal"]


class Outcome(Enum):
    """The end of a transaction."""

    commit = "commit"
    abort = "abort"


def heal(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic with the open rows.")],
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0, help="Its partition.")],
    bootstrap_server: Servers,
    producer_id: Annotated[
        int,
        typer.Option("--producer-id", help="The producer id of the open rows. The error message names it."),
    ],
    command_config: Configured = None,
    transactional_id: Annotated[
        str | None, typer.Option(help="The transactional id of the producer, if no broker knows it any more.")
    ] = None,
    end: Annotated[
        Outcome | None,
        typer.Option("--as", help="How the transaction ended. Without it, the recorded outcome is used."),
    ] = None,
    progress_topic: Annotated[
        str, typer.Option(help="The topic that holds the progress of its prefix: a query's progressTopic.")
    ] = DEFAULT_TOPIC,
    owner_gone: Annotated[
        bool,
        typer.Option(
            "--owner-gone", help="Confirm that no program uses this producer id any more, and no broker knows it."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask. Without a recorded outcome, give --as too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the end marker of a transaction on one partition, if the brokers have lost it (KAFKA-20734).

    The command shows the open rows, how their transaction ended, and which rows become visible or never will. Then it
    asks. It needs the right Alter on the cluster.

    The command refuses if a coordinator says that the transaction is still open, or if `--as` contradicts the recorded
    outcome.
    """
    console = Console(soft_wrap=True, stderr=as_json)
    with connect(bootstrap_server, command_config) as client:
        open_rows = find_open_rows(
            client,
            (topic, partition),
            producer_id,
            transactional_id,
            progress_topic=progress_topic,
            owner_gone=owner_gone,
        )
        _show(console, open_rows, progress_topic)
        with exit_1_on_no(console, "Nothing was changed: it is still open, and readers wait before it."):
            commit = _choose(console, open_rows, end, yes=yes)
        write_marker(client, open_rows, commit=commit, progress_topic=progress_topic)
    if as_json:
        print_json({**_value(open_rows), "healed_as": "commit" if commit else "abort"})
    else:
        console.print(f"{'committed' if commit else 'aborted'}: the marker is written, and readers continue")
        console.print(
            "other partitions of that transaction may lack their marker too: restart the query, which heals or names"
            " them"
        )


def _choose(console: Console, open_rows: OpenRows, end: Outcome | None, *, yes: bool) -> bool:
    if end is None and open_rows.committed is not None:
        end = Outcome.commit if open_rows.committed else Outcome.abort
    if end is None and yes:
        raise typer.BadParameter(
            "its outcome is not recorded. Nothing was changed. With --yes, give --as commit or --as abort."
        )
    if end is None:
        console.print(
            "\nIts outcome is not recorded. If the same rows were written again after these, abort. If they would be"
            " missing otherwise, commit. A wrong answer doubles or loses them."
        )
        end = typer.prompt("End it as (commit, abort)", type=Outcome, show_choices=False)
    elif not yes:
        typer.confirm(f"Write the marker, as {end.value}?", abort=True)
    return end is Outcome.commit


def _show(console: Console, open_rows: OpenRows, progress_topic: str) -> None:
    outcome = {True: "committed", False: "aborted", None: f"not recorded in {progress_topic}"}[open_rows.committed]
    facts = Table.grid(padding=(0, 2))
    facts.add_row("partition", f"{open_rows.partition[0]}-{open_rows.partition[1]}")
    facts.add_row("open from offset", str(open_rows.opened.start_offset))
    facts.add_row("producer id, epoch", f"{open_rows.opened.producer_id}, {open_rows.opened.epoch}")
    facts.add_row("transactional id", open_rows.transactional_id or "known to no broker any more")
    facts.add_row("outcome", outcome)
    facts.add_row(
        "records waiting",
        f"{open_rows.waiting:,}" if open_rows.waiting else "none: another transaction holds readers back before it",
    )
    facts.add_row("as commit", "its rows from that offset on become visible")
    facts.add_row("as abort", "its rows from that offset on are never visible")
    print_table(console, facts)


def _value(open_rows: OpenRows) -> dict[str, Any]:
    return {
        "topic": open_rows.partition[0],
        "partition": open_rows.partition[1],
        "first_offset": open_rows.opened.start_offset,
        "producer_id": open_rows.opened.producer_id,
        "epoch": open_rows.opened.epoch,
        "transactional_id": open_rows.transactional_id,
        "committed": open_rows.committed,
        "records_waiting": open_rows.waiting,
    }
