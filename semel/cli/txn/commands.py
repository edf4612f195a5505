"""``semel txn list | describe | abort | commit | sweep | heal``: open transactions, whose they are, how many records
they hold back, and their end.
"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from semel.admin.txn import abort_transaction, check_not_part, describe_transaction, list_transactions
from semel.cli.help import application, examples
from semel.cli.options import AsJson, Configured, Servers, check_can_ask, confirm, connect, print_json, print_table
from semel.cli.txn.heal import heal
from semel.cli.txn.prepared import commit, sweep
from semel.cli.txn.show import age, json_value, show, timeout, whose

__all__ = ["app"]

app = application(no_args_is_help=True, help="List the open transactions, which hold readers back, and end them.")
app.command(epilog=examples("semel txn commit payments --bootstrap-server localhost:9092"))(commit)
app.command(
    epilog=examples(
        "semel txn sweep payments --bootstrap-server localhost:9092",
        "semel txn sweep payments --bootstrap-server localhost:9092 \\\n    --database postgresql+psycopg://app@db/orders",
    )
)(sweep)
app.command(epilog=examples("semel txn heal orders 0 --producer-id 4711 --bootstrap-server localhost:9092"))(heal)
Id = Annotated[str, typer.Argument(metavar="ID", help="The transactional id. For a query, its transactionalIdPrefix.")]


@app.command("list", epilog=examples("semel txn list --bootstrap-server localhost:9092"))
def list_all(
    bootstrap_server: Servers,
    command_config: Configured = None,
    everything: Annotated[bool, typer.Option("--all", help="Show ids without an open transaction too.")] = False,
    prepared: Annotated[
        bool, typer.Option("--prepared", help="Show only transactions that wait for a decision, or that may.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the open transactions, the oldest first, and how many records wait after each."""
    if everything and prepared:
        raise typer.BadParameter("--all shows ids with no open transaction, and --prepared only open ones")
    with connect(bootstrap_server, command_config) as client:
        transactions = [
            one for one in list_transactions(client, only_open=not everything) if one.prepared or not prepared
        ]
    if as_json:
        print_json([json_value(one) for one in transactions])
        return
    console = Console(soft_wrap=True)
    if not transactions:
        kind = "prepared" if prepared else "open"
        console.print(f"no transaction that this login may describe is {kind}")
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
    for one in transactions:
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
    if any(one.open for one in transactions):
        console.print("\ndetails: semel txn describe ID; if its owner is gone: semel txn abort ID")
    if any(one.prepared for one in transactions):
        console.print("if a program's store holds the decision: semel txn sweep PREFIX, or restart the program")


@app.command(epilog=examples("semel txn describe totals --bootstrap-server localhost:9092"))
def describe(
    transactional_id: Id, bootstrap_server: Servers, command_config: Configured = None, as_json: AsJson = False
) -> None:
    """Show the state of one transactional id, and where it holds readers back."""
    with connect(bootstrap_server, command_config) as client:
        info = describe_transaction(client, transactional_id)
    if as_json:
        print_json(json_value(info))
    else:
        show(Console(soft_wrap=True), info)


@app.command(epilog=examples("semel txn abort totals --bootstrap-server localhost:9092"))
def abort(
    transactional_id: Id,
    bootstrap_server: Servers,
    command_config: Configured = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Abort the open transaction of an id.

    The command shows the rows that will never be visible, and asks. It does not stop the owner: stop the query first. A
    query that still runs repeats its batch once, and stops at the second abort in a row. It loses no row.

    With `--json` the command prints the transaction as it was, and that it is aborted.
    """
    check_can_ask(as_json=as_json, asks=not yes)
    console = Console(soft_wrap=True, quiet=as_json)
    with connect(bootstrap_server, command_config) as client:
        info = describe_transaction(client, transactional_id)
        show(console, info)
        check_not_part(info)
        if info.transaction.state == "Ongoing":
            console.print(
                "\nIts rows will never be visible, its group offsets are dropped, and readers continue after it."
            )
            confirm(console, "Abort it?", "Nothing was changed: it is still open, and readers wait before it.", yes=yes)
        abort_transaction(client, info)
    if as_json:
        print_json({**json_value(info), "aborted": True})
    console.print("aborted: its markers are on all shown partitions")
