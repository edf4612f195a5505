"""``semel txn list | describe | abort | commit | sweep | heal``: open transactions, whose they are, how many records
they hold back, and their end.
"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from semel.admin.txn import abort_transaction, describe_transaction, list_transactions
from semel.cli.options import AsJson, Configured, Servers, check_can_ask, confirm, connect, print_json, print_table
from semel.cli.txn_heal import heal
from semel.cli.txn_prepared import commit, sweep
from semel.cli.txn_show import age, json_value, show, timeout, whose

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Transactions: list the open ones, which hold readers back, and end them.",
)
app.command()(commit)
app.command()(sweep)
app.command()(heal)
Id = Annotated[str, typer.Argument(metavar="ID", help="The transactional id: of a query, its transactionalIdPrefix.")]


@app.command("list")
def list_all(
    bootstrap_server: Servers,
    command_config: Configured = None,
    everything: Annotated[bool, typer.Option("--all", help="Also ids with no open transaction.")] = False,
    prepared: Annotated[
        bool, typer.Option("--prepared", help="Only those that wait for a decision, or may come to that.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the transactions that are open, the oldest first, and how many records wait behind each."""
    if everything and prepared:
        raise typer.BadParameter("--all shows ids with no open transaction, and --prepared only open ones")
    with connect(bootstrap_server, command_config) as client:
        found = [one for one in list_transactions(client, only_open=not everything) if one.prepared or not prepared]
    if as_json:
        print_json([json_value(one) for one in found])
        return
    console = Console(soft_wrap=True)
    if not found:
        kind = "prepared" if prepared else "open"
        console.print(f"no transaction is {kind}, of those that this login may describe")
        return
    table = Table(
        "transactional id",
        "state",
        "age",
        "timeout",
        "partitions",
        "records waiting",
        box=None,
        header_style="bold",
        padding=(0, 2),
    )
    for one in found:
        waiting = f"{one.waiting:,}" if one.waiting else "none"
        table.add_row(
            whose(one),
            one.transaction.state,
            age(one),
            timeout(one),
            str(len(one.transaction.partitions)),
            waiting,
        )
    print_table(console, table)
    if any(one.open for one in found):
        console.print("\nmore of one: semel txn describe ID; end one whose owner is gone: semel txn abort ID")
    if any(one.prepared for one in found):
        console.print("prepared, and decided in a program's store: semel txn sweep PREFIX, or start its program again")


@app.command()
def describe(
    transactional_id: Id, bootstrap_server: Servers, command_config: Configured = None, as_json: AsJson = False
) -> None:
    """Show one transactional id: its state, and where its open transaction holds readers back."""
    with connect(bootstrap_server, command_config) as client:
        found = describe_transaction(client, transactional_id)
    if as_json:
        print_json(json_value(found))
    else:
        show(Console(soft_wrap=True), found)


@app.command()
def abort(
    transactional_id: Id,
    bootstrap_server: Servers,
    command_config: Configured = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Abort the open transaction of an id, after showing what vanishes. It stops no owner: stop the query itself first,
    where it lives.

    With --json it prints the transaction as it was, and that it is aborted.

    A query of semel's that lives runs its batch again, once; at the second abort in a row it stops. Nothing of it is
    lost.
    """
    check_can_ask(as_json=as_json, asks=not yes)
    console = Console(soft_wrap=True, quiet=as_json)
    with connect(bootstrap_server, command_config) as client:
        found = describe_transaction(client, transactional_id)
        show(console, found)
        if found.transaction.state == "Ongoing":
            console.print(
                "\nIts rows will never be visible, the offsets of its groups go back, and readers go on after it."
            )
            confirm(console, "Abort it?", "Nothing was changed: it is still open, and readers wait before it.", yes=yes)
        abort_transaction(client, found)
    if as_json:
        print_json({**json_value(found), "aborted": True})
    console.print("aborted, and its markers are on all of the partitions that were shown")
