"""Output of ``semel txn`` about transactions: a table, or JSON."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.table import Table

from semel.admin.txn import NEVER_MS, TransactionInfo
from semel.cli.options import print_table
from semel.transaction.transactional_id import IdKind

__all__ = ["age", "json_value", "seconds", "show", "timeout", "whose"]


def show(console: Console, found: TransactionInfo) -> None:
    """Print one transaction, and the partitions that it holds back."""
    transaction = found.transaction
    facts = Table.grid(padding=(0, 2))
    facts.add_row("transactional id", whose(found))
    facts.add_row("state", transaction.state)
    facts.add_row("producer id, epoch", f"{transaction.producer_id}, {transaction.epoch}")
    if found.open:
        facts.add_row("age, timeout", f"{age(found)}, {timeout(found)}")
        shown = ", ".join(f"{topic}-{index}" for topic, index in transaction.partitions)
        facts.add_row("partitions", shown or "none yet, or none that this login may describe")
    if found.prepared:
        facts.add_row("decided", "not known here: the decision is in its program's store (a file, a database)")
    print_table(console, facts)
    if found.held:
        table = Table("partition", "its first offset", "records waiting", box=None, header_style="bold", padding=(0, 2))
        for held in found.held:
            first = "nothing written" if held.first_offset is None else str(held.first_offset)
            table.add_row(f"{held.topic}-{held.index}", first, f"{held.waiting:,}" if held.waiting else "none")
        print_table(console, table)


def whose(found: TransactionInfo) -> str:
    """Return the id. For a prepared transaction, add its prefix."""
    name = found.name
    return (
        name.prefix
        if name.kind is IdKind.OWNER
        else f"{found.transaction.transactional_id} ({name.kind.value} of {name.prefix})"
    )


def _age_s(found: TransactionInfo) -> float:
    return max(time.time() - found.transaction.started_ms / 1000, 0.0)


def age(found: TransactionInfo) -> str:
    """Return the time since it was opened, as text; empty if it is not open."""
    return seconds(_age_s(found) * 1000) if found.open and found.transaction.started_ms > 0 else ""


def timeout(found: TransactionInfo) -> str:
    """Return the time after which the brokers abort it, as text."""
    ms = found.transaction.timeout_ms
    return "never" if ms >= NEVER_MS else seconds(ms)


def seconds(ms: float) -> str:
    """Return a length of time, as text."""
    seconds = int(ms / 1000)
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"


def json_value(found: TransactionInfo) -> dict[str, Any]:
    """Return one transaction as JSON."""
    transaction = found.transaction
    return {
        "transactional_id": transaction.transactional_id,
        "prefix": found.name.prefix,
        "kind": found.name.kind.value,
        "state": transaction.state,
        "open": found.open,
        "prepared": found.prepared,
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
