"""``semel txn list | describe | abort | heal``: transactions that stand open, whose they are, who waits behind them,
and their end.
"""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from semel.admin.txn import TransactionInfo, abort_transaction, describe_transaction, list_transactions
from semel.cli.options import AsJson, Configured, Servers, check_can_ask, confirm, connect, print_json, print_table
from semel.cli.txn_heal import heal
from semel.transaction.transactional_id import IdKind

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Transactions: what stands open, and holds readers back."
)
app.command()(heal)
Id = Annotated[str, typer.Argument(metavar="ID", help="The transactional id: of a query, its transactionalIdPrefix.")]


@app.command("list")
def list_all(
    bootstrap_server: Servers,
    command_config: Configured = None,
    everything: Annotated[bool, typer.Option("--all", help="Also ids with no open transaction.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the transactions that are open, the oldest first, and how many records wait behind each."""
    with connect(bootstrap_server, command_config) as client:
        found = list_transactions(client, only_open=not everything)
    if as_json:
        print_json([_value(one) for one in found])
        return
    console = Console(soft_wrap=True)
    if not found:
        console.print("no transaction is open, of those that this login may describe")
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
            _whose(one),
            one.transaction.state,
            _age(one),
            _seconds(one.transaction.timeout_ms),
            str(len(one.transaction.partitions)),
            waiting,
        )
    print_table(console, table)
    if any(one.open for one in found):
        console.print("\nmore of one: semel txn describe ID; end one whose owner is gone: semel txn abort ID")


@app.command()
def describe(
    transactional_id: Id, bootstrap_server: Servers, command_config: Configured = None, as_json: AsJson = False
) -> None:
    """Show one transactional id: its state, and where its open transaction holds readers back."""
    with connect(bootstrap_server, command_config) as client:
        found = describe_transaction(client, transactional_id)
    if as_json:
        print_json(_value(found))
    else:
        _show(Console(soft_wrap=True), found)


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
        _show(console, found)
        if found.transaction.state == "Ongoing":
            console.print(
                "\nIts rows will never be visible, the offsets of its groups go back, and readers go on behind it."
            )
            confirm(console, "Abort it?", "Nothing was changed: it is still open, and readers wait behind it.", yes=yes)
        abort_transaction(client, found)
    if as_json:
        print_json({**_value(found), "aborted": True})
    console.print("aborted, and its markers are on all of the partitions that were shown")


def _show(console: Console, found: TransactionInfo) -> None:
    transaction = found.transaction
    facts = Table.grid(padding=(0, 2))
    facts.add_row("transactional id", _whose(found))
    facts.add_row("state", transaction.state)
    facts.add_row("producer id, epoch", f"{transaction.producer_id}, {transaction.epoch}")
    if found.open:
        facts.add_row("age, timeout", f"{_age(found)}, {_seconds(transaction.timeout_ms)}")
        shown = ", ".join(f"{topic}-{index}" for topic, index in transaction.partitions)
        facts.add_row("partitions", shown or "none yet, or none that this login may describe")
    print_table(console, facts)
    if found.held:
        table = Table("partition", "its first offset", "records waiting", box=None, header_style="bold", padding=(0, 2))
        for held in found.held:
            first = "nothing written" if held.first_offset is None else str(held.first_offset)
            table.add_row(f"{held.topic}-{held.index}", first, f"{held.waiting:,}" if held.waiting else "none")
        print_table(console, table)


def _whose(found: TransactionInfo) -> str:
    name = found.name
    return (
        name.prefix
        if name.kind is IdKind.OWNER
        else f"{found.transaction.transactional_id} ({name.kind.value} of {name.prefix})"
    )


def _age_s(found: TransactionInfo) -> float:
    return max(time.time() - found.transaction.started_ms / 1000, 0.0)


def _age(found: TransactionInfo) -> str:
    return _seconds(_age_s(found) * 1000) if found.open and found.transaction.started_ms > 0 else ""


def _seconds(ms: float) -> str:
    seconds = int(ms / 1000)
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"


def _value(found: TransactionInfo) -> dict[str, Any]:
    transaction = found.transaction
    return {
        "transactional_id": transaction.transactional_id,
        "prefix": found.name.prefix,
        "kind": found.name.kind.value,
        "state": transaction.state,
        "open": found.open,
        "producer_id": transaction.producer_id,
        "epoch": transaction.epoch,
        "timeout_ms": transaction.timeout_ms,
        "age_s": round(_age_s(found), 3) if found.open else None,
        "partitions": [{"topic": topic, "partition": index} for topic, index in transaction.partitions],
        "held": [
            {"topic": h.topic, "partition": h.index, "first_offset": h.first_offset, "records_waiting": h.waiting}
            for h in found.held
        ],
        "records_waiting": found.waiting,
    }
